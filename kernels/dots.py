"""Dot-product instructions for Numba kernels: vectors of narrow numbers, multiplied and added up within each lane.

An instruction takes two registers of narrow numbers and adds to each lane of a third the products of two or more pairs,
which lie side by side: a *word* of 32 bits has four int8 or two bfloat16. They are LLVM's intrinsics, chosen by the
features of this CPU. float16 has no such instruction: its FMA adds one product to each number of 16 bits.

What has run: `vpdpbusd` and `vdpbf16ps` of 512 bits, on AMD Zen 4. All others have never run on a CPU that has them;
tests inspect the code that LLVM makes of them. The tiles of AMX, which are no vectors, are in `kernels.tiles`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from kernels.simd import INDEX, counted_loop, features, vector_registers

VECTORS_WIDE = 2
"""Vectors in a row of the product's tile: each broadcast word of A is used twice."""
SUMS = {"int8": types.int32, "bfloat16": types.float32, "float16": types.uint16}
"""The type of the arrays that hold sums, by which the intrinsics below know the narrow type; float16 by its bits."""


@dataclass(frozen=True)
class Dot:
    """One instruction that multiplies narrow numbers and adds up."""

    name: str
    dtype: str
    needs: frozenset[str]
    """The features, by LLVM's names, without which the CPU lacks it."""
    intrinsic: str
    bytes: int
    """The size of its registers."""
    products: int
    """The products that it adds to each sum."""
    unsigned: bool = False
    """Whether its first operand is of unsigned numbers, where the type's are signed."""
    matrix: bool = False
    """Whether it multiplies matrices: two rows of the first operand by two of the second, into 2×2 sums."""

    @property
    def sums(self) -> int:
        """The sums in a register."""
        return self.bytes // (2 if self.dtype == "float16" else 4)

    @property
    def numbers(self) -> int:
        """The narrow numbers in a register."""
        return self.bytes // (1 if self.dtype == "int8" else 2)

    @property
    def flops(self) -> int:
        """A multiplication and an addition for each product."""
        return 2 * self.sums * self.products

    @property
    def sum_ir(self) -> ir.VectorType:
        kind = {"int8": ir.IntType(32), "bfloat16": ir.FloatType(), "float16": ir.HalfType()}[self.dtype]
        return ir.VectorType(kind, self.sums)

    def call(self, builder: Any, sums: Any, a: Any, b: Any) -> Any:
        """Emit the instruction for operands of any type of its size; return the new sums."""
        kind = {"int8": "i8", "bfloat16": "bfloat", "float16": "half"}[self.dtype]
        narrow = _Narrow(kind, self.numbers)
        function = ir.FunctionType(self.sum_ir, [self.sum_ir, narrow, narrow])
        operands = [builder.bitcast(operand, narrow) for operand in (a, b)]
        if self.dtype == "float16":  # fused multiply-add takes the sum last
            function = ir.FunctionType(self.sum_ir, [self.sum_ir] * 3)
            order = [builder.bitcast(operand, self.sum_ir) for operand in (a, b)] + [sums]
        else:
            order = [sums, *operands]
        return builder.call(cgutils.get_or_insert_function(builder.module, function, self.intrinsic), order)


class _Narrow(ir.VectorType):  # type: ignore[misc]
    """A vector of a type that llvmlite may not have: bfloat16."""

    def __init__(self, element: str, count: int) -> None:
        super().__init__(ir.HalfType() if element == "half" else ir.IntType(8), count)
        self.word = element

    def _to_string(self) -> str:
        return f"<{self.count} x {self.word}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Narrow) and (self.word, self.count) == (other.word, other.count)

    def __hash__(self) -> int:
        return hash((self.word, self.count))


def _dot(name: str, dtype: str, needs: str, intrinsic: str, bits: int, products: int, **more: bool) -> Dot:
    return Dot(name, dtype, frozenset(needs.split()), f"llvm.{intrinsic}", bits // 8, products, **more)


INSTRUCTIONS = (
    _dot("vpdpbusd", "int8", "avx512f avx512vnni", "x86.avx512.vpdpbusd.512", 512, 4, unsigned=True),
    _dot("vpdpbssd", "int8", "avx2 avxvnniint8", "x86.avx2.vpdpbssd.256", 256, 4),
    _dot("vpdpbusd", "int8", "avx2 avxvnni", "x86.avx512.vpdpbusd.256", 256, 4, unsigned=True),
    _dot("smmla", "int8", "neon i8mm", "aarch64.neon.smmla.v4i32.v16i8", 128, 8, matrix=True),
    _dot("sdot", "int8", "neon dotprod", "aarch64.neon.sdot.v4i32.v16i8", 128, 4),
    _dot("vdpbf16ps", "bfloat16", "avx512f avx512bf16", "x86.avx512bf16.dpbf16ps.512", 512, 2),
    _dot("bfmmla", "bfloat16", "neon bf16", "aarch64.neon.bfmmla", 128, 4, matrix=True),
    _dot("bfdot", "bfloat16", "neon bf16", "aarch64.neon.bfdot.v4f32.v8bf16", 128, 2),
    _dot("vfmadd231ph", "float16", "avx512f avx512fp16", "fma.v32f16", 512, 1),
    _dot("fmla", "float16", "neon fullfp16", "fma.v8f16", 128, 1),
)
"""The widest and fastest of a type comes first."""


def find_dot(dtype: str, has: Collection[str] | None = None, matrix: bool = True) -> Dot | None:
    """Return the first instruction for a type on a CPU with those features (this one's); None where it has none.

    Without `matrix`, instructions that multiply matrices are left out.
    """
    known = features() if has is None else frozenset(has)
    fit = (dot for dot in INSTRUCTIONS if dot.dtype == dtype and dot.needs <= known and (matrix or not dot.matrix))
    return next(fit, None)


def dot_chains() -> int:
    """Return the independent sums of the ceiling, a register each: as many as leave four for the operands."""
    return vector_registers() - 4


def dot_tile(dot: Dot) -> tuple[int, int]:
    """Return the rows and columns of C in registers: two vectors wide, beside two vectors of B and two words of A."""
    return (vector_registers() - VECTORS_WIDE - 2) // VECTORS_WIDE, VECTORS_WIDE * dot.sums


def _dot_of(sums: Any, matrix: bool) -> Dot | None:
    flat = isinstance(sums, types.Array) and sums.ndim == 1 and sums.layout == "C"
    dtypes = [dtype for dtype, kind in SUMS.items() if flat and sums.dtype == kind]
    return find_dot(dtypes[0], matrix=matrix) if dtypes else None


def _pointer(context: Any, builder: Any, kind: Any, array: Any, index: Any, target: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), target.as_pointer())


@intrinsic
def run_dot_chains(typing: Any, sums: Any, start: Any, factors: Any, steps: Any) -> Any:
    """Add the products of two registers to `dot_chains()` registers of sums[start:], `steps` ≥ 1 times.

    `factors`, of uint8, has the bytes of the first operand and then those of the second.
    """
    dot = _dot_of(sums, matrix=True)
    if dot is None:
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, first, operands, count = arguments
        emit_chains(
            dot,
            builder,
            [
                _pointer(context, builder, sums, array, builder.add(first, INDEX(i * dot.sums)), dot.sum_ir)
                for i in range(dot_chains())
            ],
            [_pointer(context, builder, factors, operands, INDEX(i * dot.bytes), _words(dot)) for i in range(2)],
            count,
        )
        return context.get_dummy_value()

    return types.void(sums, types.intp, factors, types.intp), codegen


def _words(dot: Dot) -> ir.VectorType:
    return ir.VectorType(ir.IntType(32), dot.bytes // 4)


def emit_chains(dot: Dot, builder: Any, sums: list[Any], factors: list[Any], steps: Any) -> None:
    """Emit the loop of `run_dot_chains`, for pointers to sums and to the two operands."""
    a, b = (builder.load(pointer, align=1) for pointer in factors)
    initial = [builder.load(pointer, align=1) for pointer in sums]

    def step(index: Any, values: list[Any]) -> list[Any]:
        return [dot.call(builder, value, a, b) for value in values]

    for pointer, value in zip(sums, counted_loop(builder, steps, initial, step), strict=True):
        builder.store(value, pointer, align=1)


@intrinsic
def multiply_dot_tile(
    typing: Any, depth: Any, a: Any, a_start: Any, b: Any, b_start: Any, c: Any, c_start: Any, stride: Any, from_: Any,
    from_start: Any,
) -> Any:  # fmt: skip
    """Add A·B to one tile of C of `dot_tile`; every row of the sums begins with from_[from_start:].

    `a` holds the tile's rows of A as `depth` ≥ 1 columns of MR words, `b` its columns of B as `depth` rows of NR words,
    both of uint32; row i of the tile of C begins at c[c_start + i·stride].
    """
    dot = _dot_of(c, matrix=False)
    if dot is None:
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        steps, a_array, a_first, b_array, b_first, c_array, c_first, c_stride, f_array, f_first = arguments
        emit_tile(
            dot,
            builder,
            steps,
            _pointer(context, builder, a, a_array, a_first, ir.IntType(32)),
            _pointer(context, builder, b, b_array, b_first, ir.IntType(32)),
            _pointer(context, builder, c, c_array, c_first, dot.sum_ir.element),
            c_stride,
            _pointer(context, builder, from_, f_array, f_first, dot.sum_ir.element),
        )
        return context.get_dummy_value()

    whole = types.intp
    return types.void(whole, a, whole, b, whole, c, whole, whole, from_, whole), codegen


def emit_tile(dot: Dot, builder: Any, steps: Any, a: Any, b: Any, c: Any, stride: Any, begin: Any) -> None:
    """Emit the tile's loop, for pointers to words of A and B and to sums of C, and to where a row of sums begins."""
    rows, columns = dot_tile(dot)
    words = _words(dot)

    def vector(pointer: Any, index: Any, kind: Any) -> Any:
        return builder.bitcast(builder.gep(pointer, [index]), kind.as_pointer())

    def step(index: Any, sums: list[Any]) -> list[Any]:
        a_column = builder.gep(a, [builder.mul(index, INDEX(rows))])
        b_row = builder.gep(b, [builder.mul(index, INDEX(columns))])
        wide = [builder.load(vector(b_row, INDEX(j * dot.sums), words), align=4) for j in range(VECTORS_WIDE)]
        results = []
        for i in range(rows):
            word = builder.load(builder.gep(a_column, [INDEX(i)]), align=4)
            lane = builder.insert_element(ir.Constant(words, ir.Undefined), word, ir.IntType(32)(0))
            zeros = ir.Constant(ir.VectorType(ir.IntType(32), words.count), [0] * words.count)
            all_lanes = builder.shuffle_vector(lane, lane, zeros)
            for j in range(VECTORS_WIDE):
                results.append(dot.call(builder, sums[i * VECTORS_WIDE + j], all_lanes, wide[j]))
        return results

    first = [builder.load(vector(begin, INDEX(j * dot.sums), dot.sum_ir), align=4) for j in range(VECTORS_WIDE)]
    sums = counted_loop(builder, steps, first * rows, step)
    add = builder.add if dot.dtype == "int8" else builder.fadd
    for i in range(rows):
        for j in range(VECTORS_WIDE):
            place = builder.add(builder.mul(stride, INDEX(i)), INDEX(j * dot.sums))
            pointer = vector(c, place, dot.sum_ir)
            builder.store(add(builder.load(pointer, align=4), sums[i * VECTORS_WIDE + j]), pointer, align=4)


def _tile_constant(c: Any, which: int) -> Any:
    dot = _dot_of(c, matrix=False)
    if dot is None:
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return INDEX(dot_tile(dot)[which])

    return types.intp(c), codegen


@intrinsic
def dot_rows(typing: Any, c: Any) -> Any:
    """Return the rows of `dot_tile` for an array of sums, a constant of the kernel."""
    return _tile_constant(c, 0)


@intrinsic
def dot_columns(typing: Any, c: Any) -> Any:
    """Return the columns of `dot_tile` for an array of sums, a constant of the kernel."""
    return _tile_constant(c, 1)


@intrinsic
def pack_words(typing: Any, b: Any, source: Any, n: Any, packed: Any, target: Any, start: Any, at: Any) -> Any:
    """Pack one word of each of NR columns, from as many whole rows of B, of uint8 or uint16, as a word has numbers.

    For int8 whose other factor is unsigned, take 128 times each number off start[at:], where the columns' sums begin.
    """
    dot = _dot_of(start, matrix=False)
    if dot is None:
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        b_array, first, stride, packed_array, place, start_array, start_at = arguments
        columns, bits = dot_tile(dot)[1], 32 // dot.products
        narrow, wide = (ir.VectorType(ir.IntType(size), columns) for size in (bits, 32))

        def every(value: int) -> Any:
            return ir.Constant(wide, [value] * columns)

        words, total = every(0), every(0)
        for e in range(dot.products):
            row = builder.add(first, builder.mul(stride, INDEX(e)))
            numbers = builder.load(_pointer(context, builder, b, b_array, row, narrow), align=1)
            words = builder.or_(words, builder.shl(builder.zext(numbers, wide), every(bits * e)))
            total = builder.add(total, builder.sext(numbers, wide))
        builder.store(words, _pointer(context, builder, packed, packed_array, place, wide), align=4)
        if dot.unsigned:
            begins = _pointer(context, builder, start, start_array, start_at, wide)
            builder.store(builder.sub(builder.load(begins, align=4), builder.shl(total, every(7))), begins, align=4)
        return context.get_dummy_value()

    whole = types.intp
    return types.void(b, whole, whole, packed, whole, start, whole), codegen


@intrinsic
def word_at(typing: Any, array: Any, index: Any) -> Any:
    """Return the 32 bits at array[index:] of uint8 or uint16, at any alignment."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data, place = arguments
        return builder.load(_pointer(context, builder, array, data, place, ir.IntType(32)), align=1)

    return types.uint32(array, types.intp), codegen
