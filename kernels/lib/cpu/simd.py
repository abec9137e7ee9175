"""Vector instructions for Numba kernels: explicit loads, FMAs and non-temporal stores of vector registers.

The instructions are LLVM IR, not assembly, so that they work on every CPU that LLVM supports. `fma_microkernel` is the
microkernel of a matrix product that uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import reduce
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models, register_default
from numba.extending import intrinsic

from accelbench.kernels.lib.cpu.target import this_cpu

INDEX = ir.IntType(64)
FLOATS = types.float32, types.float64
WORDS = (types.uint32,)
"""Types of words that hold several narrow numbers; their vectors support loads and stores only."""
LINE_BYTES = 64
"""Bytes of a cache line; a vector that crosses a line takes two loads."""
VECTORS_WIDE = 2
"""Vectors in a row of the microkernel's tile: each broadcast element of A is used twice."""


def features() -> frozenset[str]:
    """Return the instruction-set extensions that Numba compiles for; see `target`."""
    return this_cpu().features


def vector_bytes() -> int:
    """Return the bytes of a vector register: 64 with AVX-512, 32 with AVX, the width of SVE, else 16 (SSE2, NEON)."""
    return this_cpu().vector_bytes


def vector_registers() -> int:
    """Return the number of vector registers."""
    return this_cpu().vector_registers


def lanes(itemsize: int) -> int:
    """Return the elements of `itemsize` bytes in a vector."""
    return vector_bytes() // itemsize


def fma_chains() -> int:
    """Return the number of independent sums in the measurement of the arithmetic peak: all registers but four.

    u FMA units with a latency of l cycles need u·l independent sums: 8 on AMD Zen 3 or Intel Skylake (2·4), 10 on
    Haswell (2·5), 16 on Arm Neoverse V and Apple M (4·4). The other four registers hold the operands.
    """
    return vector_registers() - 4


def tile_shape(itemsize: int) -> tuple[int, int]:
    """Return the rows and columns of C that the microkernel keeps in registers.

    The tile is two vectors wide, with as many rows as leave registers for two vectors of B and two broadcast elements
    of A: 6 rows with 16 registers, 14 rows with 32. With 6 rows a step has 12 FMAs and 2 + 6 loads, within the two
    loads and two FMAs per cycle of every x86-64 CPU since Haswell. On ARM, where FMAs have no memory operand, LLVM
    loads elements of A in pairs before their use and would spill a sum with 14 rows, so there are 12.
    """
    operands = VECTORS_WIDE + (6 if this_cpu().is_arm else 2)
    return (vector_registers() - operands) // VECTORS_WIDE, VECTORS_WIDE * lanes(itemsize)


class Vector(types.Type):  # type: ignore[misc]
    """One vector register of float32 or float64, as a value inside a kernel."""

    def __init__(self, dtype: types.Float) -> None:
        self.dtype = dtype
        super().__init__(name=f"vector({dtype})")


@register_default(Vector)
class VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Vector) -> None:
        super().__init__(manager, kind, vector_ir(kind.dtype))


def _element_ir(dtype: types.Number) -> ir.Type:
    if dtype in WORDS:
        return ir.IntType(dtype.bitwidth)
    return ir.FloatType() if dtype.bitwidth == 32 else ir.DoubleType()


def vector_ir(dtype: types.Number) -> ir.VectorType:
    """Return the LLVM type of a vector register of a Numba type."""
    return ir.VectorType(_element_ir(dtype), lanes(dtype.bitwidth // 8))


def is_flat(array: types.Type, dtypes: Collection[types.Number] = FLOATS) -> bool:
    """Return whether an array is flat, contiguous and of one of `dtypes`."""
    return isinstance(array, types.Array) and array.ndim == 1 and array.layout == "C" and array.dtype in dtypes


def element_pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    """Emit the address of an element."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index])


def pointer_as(kind: ir.Type, context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    """Emit the address of an element as a pointer to another type."""
    return builder.bitcast(element_pointer(context, builder, array_type, array, index), kind.as_pointer())


def vector_pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    """Emit the address of an element as a pointer to a vector."""
    return pointer_as(vector_ir(array_type.dtype), context, builder, array_type, array, index)


def fma_function(builder: Any, vector: ir.VectorType) -> Any:
    """Return LLVM's `fmuladd`: one FMA if the CPU has it, else a multiplication and an addition."""
    suffix = f"v{vector.count}f{32 if isinstance(vector.element, ir.FloatType) else 64}"
    kind = ir.FunctionType(vector, [vector] * 3)
    return cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.{suffix}")


def splat_ir(builder: Any, vector: ir.VectorType, element: Any) -> Any:
    """Emit a vector with the number in every lane."""
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), element, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, first, zeros)


def index_arguments(*indices: types.Type) -> bool:
    """Return whether all arguments have integer types."""
    return all(isinstance(index, types.Integer) for index in indices)


@intrinsic
def load(typing: Any, array: Any, index: Any) -> Any:
    """Return the vector at array[index:], of any alignment."""
    if not (is_flat(array) and index_arguments(index)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = vector_pointer(context, builder, array, *arguments)
        return builder.load(pointer, align=array.dtype.bitwidth // 8)

    return Vector(array.dtype)(array, types.intp), codegen


def _constant_of_type(size: Callable[[int], int], array: Any, dtypes: Collection[types.Number] = FLOATS) -> Any:
    """Return the signature and code of an intrinsic for a constant that depends on an array's item size."""
    if not is_flat(array, dtypes):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return INDEX(size(array.dtype.bitwidth // 8))

    return types.intp(array), codegen


@intrinsic
def lanes_of(typing: Any, array: Any) -> Any:
    """Return the elements in a vector of an array's type: a constant of the kernel, so that loops can be unrolled."""
    return _constant_of_type(lanes, array, FLOATS + WORDS)


@intrinsic
def tile_rows(typing: Any, array: Any) -> Any:
    """Return the number of rows of `tile_shape` for the type of an array, a constant of the kernel."""
    return _constant_of_type(lambda itemsize: tile_shape(itemsize)[0], array)


@intrinsic
def tile_columns(typing: Any, array: Any) -> Any:
    """Return the number of columns of `tile_shape` for the type of an array, a constant of the kernel."""
    return _constant_of_type(lambda itemsize: tile_shape(itemsize)[1], array)


@intrinsic
def store(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Write a vector to array[index:], of any alignment."""
    if not (is_flat(array) and index_arguments(index) and value == Vector(array.dtype)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = vector_pointer(context, builder, array, *arguments[:2])
        builder.store(arguments[2], pointer, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, value), codegen


@intrinsic
def store_past_cache(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Write a vector to array[index:], aligned to its size, by a non-temporal store, which reads no cache line first.

    Call `fence` before another thread reads the array.
    """
    if not (is_flat(array) and index_arguments(index) and value == Vector(array.dtype)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = vector_pointer(context, builder, array, *arguments[:2])
        written = builder.store(arguments[2], pointer, align=vector_bytes())
        written.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))
        return context.get_dummy_value()

    return types.void(array, types.intp, value), codegen


@intrinsic
def fence(typing: Any) -> Any:
    """Order all earlier stores, including non-temporal ones, before all later memory accesses."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def splat(typing: Any, value: Any) -> Any:
    """Return a vector with the number in every lane."""
    if value not in (types.float32, types.float64):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return splat_ir(builder, vector_ir(value), arguments[0])

    return Vector(value)(value), codegen


@intrinsic
def fma(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a·b + c, lane by lane, rounded once if the CPU has FMA."""
    if not (isinstance(a, Vector) and a == b == c):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.call(fma_function(builder, vector_ir(a.dtype)), arguments)

    return a(a, b, c), codegen


@intrinsic
def add_lanes(typing: Any, vector: Any) -> Any:
    """Return the sum of a vector's elements."""
    if not isinstance(vector, Vector):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        elements = [
            builder.extract_element(arguments[0], ir.Constant(ir.IntType(32), i))
            for i in range(vector_ir(vector.dtype).count)
        ]
        return reduce(builder.fadd, elements)

    return vector.dtype(vector), codegen


def counted_loop(builder: Any, steps: Any, initial: list[Any], step: Any) -> list[Any]:
    """Emit `for i in range(steps): values = step(i, values)` with the values in registers; steps ≥ 1."""
    before = builder.block
    loop = builder.append_basic_block("loop")
    after = builder.append_basic_block("after")
    builder.branch(loop)
    builder.position_at_end(loop)
    index = builder.phi(INDEX)
    values = [builder.phi(value.type) for value in initial]
    results = step(index, values)
    following = builder.add(index, INDEX(1))
    end = builder.block
    for phi, first, later in zip([index, *values], [INDEX(0), *initial], [following, *results], strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(later, end)
    builder.cbranch(builder.icmp_signed("<", following, steps), loop, after)
    builder.position_at_end(after)
    return list(results)


def changed_if(builder: Any, condition: Any, initial: list[Any], change: Callable[[list[Any]], list[Any]]) -> list[Any]:
    """Emit `if condition: values = change(values)` with the values in registers."""
    before = builder.block
    with builder.if_then(condition):
        results = change(initial)
        end = builder.block
    merged = [builder.phi(value.type) for value in initial]
    for phi, first, later in zip(merged, initial, results, strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(later, end)
    return merged


def counted_loop_if_any(builder: Any, steps: Any, initial: list[Any], step: Any) -> list[Any]:
    """Emit the loop of `counted_loop` for steps ≥ 0."""
    any_steps = builder.icmp_signed("<", INDEX(0), steps)
    return changed_if(builder, any_steps, initial, lambda values: counted_loop(builder, steps, values, step))


def emit_prefetch(builder: Any, pointer: Any, write: int, level: int) -> None:
    """Emit the prefetch of a cache line to a cache level, for writing (1) or reading (0)."""
    flags = [ir.IntType(32)] * 3
    kind = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer(), *flags])
    prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    locality, data = 4 - level, 1
    options = [ir.Constant(ir.IntType(32), value) for value in (write, locality, data)]
    builder.call(prefetch, [builder.bitcast(pointer, ir.IntType(8).as_pointer()), *options])


@intrinsic
def run_fma_chains(typing: Any, sums: Any, start: Any, factor: Any, other: Any, steps: Any) -> Any:
    """Add factor·other to the `fma_chains()` vectors at sums[start:], `steps` ≥ 1 times; they stay in registers."""
    if not (is_flat(sums) and factor == other == Vector(sums.dtype) and index_arguments(start, steps)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, first, a, b, count = arguments
        vector = vector_ir(sums.dtype)
        multiply_add = fma_function(builder, vector)
        places = [builder.add(first, INDEX(i * vector.count)) for i in range(fma_chains())]
        pointers = [vector_pointer(context, builder, sums, array, place) for place in places]
        initial = [builder.load(pointer, align=sums.dtype.bitwidth // 8) for pointer in pointers]

        def step(index: Any, values: list[Any]) -> list[Any]:
            return [builder.call(multiply_add, [a, b, value]) for value in values]

        for pointer, value in zip(pointers, counted_loop(builder, count, initial, step), strict=True):
            builder.store(value, pointer, align=sums.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(sums, types.intp, factor, other, types.intp), codegen
