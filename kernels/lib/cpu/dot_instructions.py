"""Dot-product instructions for Numba kernels: products of narrow numbers, summed in the lanes of a vector register.

An instruction takes two registers of narrow numbers and adds to each lane of a third register the products of adjacent
pairs: a 32-bit *word* holds four int8 or two bfloat16. The instructions are LLVM intrinsics, selected by the features
of the CPU. float16 has no such instruction; its FMA adds one product to each 16-bit number.

Run on hardware: `vpdpbusd` and `vdpbf16ps` of 512 bits, on AMD Zen 4. The others have never run on a CPU; tests inspect
the machine code that LLVM generates, and emulate the product by `sdot` and `bfdot`. `dot_microkernel` is the
microkernel of a matrix product with these instructions; `amx` has the instructions on tiles.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from accelbench.kernels.lib.cpu.simd import INDEX, counted_loop, features, pointer_as, vector_registers

SUMS = {"int8": types.int32, "bfloat16": types.float32, "float16": types.uint16}
"""Element types of the arrays of sums, by narrow type; intrinsics derive the narrow type from it. uint16 holds the bits
of float16."""


@dataclass(frozen=True)
class DotInstruction:
    """A multiply-accumulate instruction on vectors of narrow numbers."""

    name: str
    dtype: str
    needs: frozenset[str]
    """Required CPU features by LLVM's names, for the instruction and for rounding sums to bfloat16."""
    intrinsic: str
    bytes: int
    """Bytes of a register."""
    products: int
    """Products added to each sum."""
    unsigned: bool = False
    """Whether the first operand is unsigned, although the type is signed."""
    matrix: bool = False
    """Whether the instruction multiplies matrices: two rows of the first operand by two of the second, into 2×2
    sums."""

    @property
    def sums(self) -> int:
        """Sums in a register."""
        return self.bytes // (2 if self.dtype == "float16" else 4)

    @property
    def numbers(self) -> int:
        """Narrow numbers in a register."""
        return self.bytes // (1 if self.dtype == "int8" else 2)

    @property
    def flops(self) -> int:
        """Operations of one instruction: a multiplication and an addition for each product."""
        return 2 * self.sums * self.products

    @property
    def sum_ir(self) -> ir.VectorType:
        kind = {"int8": ir.IntType(32), "bfloat16": ir.FloatType(), "float16": ir.HalfType()}[self.dtype]
        return ir.VectorType(kind, self.sums)

    def call(self, builder: Any, sums: Any, a: Any, b: Any) -> Any:
        """Emit the instruction for operands of any type of its size; return the new sums."""
        kind = {"int8": "i8", "bfloat16": "bfloat", "float16": "half"}[self.dtype]
        narrow = Narrow(kind, self.numbers)
        function = ir.FunctionType(self.sum_ir, [self.sum_ir, narrow, narrow])
        operands = [builder.bitcast(operand, narrow) for operand in (a, b)]
        if self.dtype == "float16":  # fused multiply-add takes the sum last
            function = ir.FunctionType(self.sum_ir, [self.sum_ir] * 3)
            order = [builder.bitcast(operand, self.sum_ir) for operand in (a, b)] + [sums]
        else:
            order = [sums, *operands]
        return builder.call(cgutils.get_or_insert_function(builder.module, function, self.intrinsic), order)


class Narrow(ir.VectorType):  # type: ignore[misc]
    """A vector of a type that llvmlite may not have: bfloat16."""

    def __init__(self, element: str, count: int) -> None:
        super().__init__(ir.HalfType() if element == "half" else ir.IntType(8), count)
        self.word = element

    def _to_string(self) -> str:
        return f"<{self.count} x {self.word}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Narrow) and (self.word, self.count) == (other.word, other.count)

    def __hash__(self) -> int:
        return hash((self.word, self.count))


def _dot(name: str, dtype: str, needs: str, intrinsic: str, bits: int, products: int, **more: bool) -> DotInstruction:
    return DotInstruction(name, dtype, frozenset(needs.split()), f"llvm.{intrinsic}", bits // 8, products, **more)


INSTRUCTIONS = (
    _dot("vpdpbusd", "int8", "avx512f avx512vnni", "x86.avx512.vpdpbusd.512", 512, 4, unsigned=True),
    _dot("vpdpbssd", "int8", "avx2 avxvnniint8", "x86.avx2.vpdpbssd.256", 256, 4),
    _dot("vpdpbusd", "int8", "avx2 avxvnni", "x86.avx512.vpdpbusd.256", 256, 4, unsigned=True),
    _dot("smmla", "int8", "neon i8mm", "aarch64.neon.smmla.v4i32.v16i8", 128, 8, matrix=True),
    _dot("sdot", "int8", "neon dotprod", "aarch64.neon.sdot.v4i32.v16i8", 128, 4),
    _dot("vdpbf16ps", "bfloat16", "avx512f avx512vl avx512bf16", "x86.avx512bf16.dpbf16ps.512", 512, 2),
    _dot("bfmmla", "bfloat16", "neon bf16", "aarch64.neon.bfmmla", 128, 4, matrix=True),
    _dot("bfdot", "bfloat16", "neon bf16", "aarch64.neon.bfdot.v4f32.v8bf16", 128, 2),
    _dot("vfmadd231ph", "float16", "avx512f avx512fp16", "fma.v32f16", 512, 1),
    _dot("fmla", "float16", "neon fullfp16", "fma.v8f16", 128, 1),
)
"""All instructions; for each type the fastest comes first."""


def find_dot(dtype: str, has: Collection[str] | None = None, matrix: bool = True) -> DotInstruction | None:
    """Return the first instruction for a type on a CPU with these features (default: this CPU's), or None.

    Without `matrix`, instructions that multiply matrices are left out.
    """
    known = features() if has is None else frozenset(has)
    fit = (dot for dot in INSTRUCTIONS if dot.dtype == dtype and dot.needs <= known and (matrix or not dot.matrix))
    return next(fit, None)


def dot_chains() -> int:
    """Return the number of independent sums in the measurement of the arithmetic peak: all registers but four."""
    return vector_registers() - 4


def dot_of(sums: Any, matrix: bool) -> DotInstruction | None:
    """Return the instruction for an array of sums, or None if this CPU has none for its type."""
    flat = isinstance(sums, types.Array) and sums.ndim == 1 and sums.layout == "C"
    dtypes = [dtype for dtype, kind in SUMS.items() if flat and sums.dtype == kind]
    return find_dot(dtypes[0], matrix=matrix) if dtypes else None


def words_of(dot: DotInstruction) -> ir.VectorType:
    """Return the type of a register of words of narrow numbers."""
    return ir.VectorType(ir.IntType(32), dot.bytes // 4)


@intrinsic
def run_dot_chains(typing: Any, sums: Any, start: Any, factors: Any, steps: Any) -> Any:
    """Add the products of two registers to `dot_chains()` registers of sums[start:], `steps` ≥ 1 times.

    `factors`, of uint8, contains the bytes of the first operand, followed by the bytes of the second.
    """
    dot = dot_of(sums, matrix=True)
    if dot is None:
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, first, operands, count = arguments
        emit_chains(
            dot,
            builder,
            [
                pointer_as(dot.sum_ir, context, builder, sums, array, builder.add(first, INDEX(i * dot.sums)))
                for i in range(dot_chains())
            ],
            [pointer_as(words_of(dot), context, builder, factors, operands, INDEX(i * dot.bytes)) for i in range(2)],
            count,
        )
        return context.get_dummy_value()

    return types.void(sums, types.intp, factors, types.intp), codegen


def _words(dot: DotInstruction) -> ir.VectorType:
    return ir.VectorType(ir.IntType(32), dot.bytes // 4)


def emit_chains(dot: DotInstruction, builder: Any, sums: list[Any], factors: list[Any], steps: Any) -> None:
    """Emit the loop of `run_dot_chains`, for pointers to sums and to the two operands."""
    a, b = (builder.load(pointer, align=1) for pointer in factors)
    initial = [builder.load(pointer, align=1) for pointer in sums]

    def step(index: Any, values: list[Any]) -> list[Any]:
        return [dot.call(builder, value, a, b) for value in values]

    for pointer, value in zip(sums, counted_loop(builder, steps, initial, step), strict=True):
        builder.store(value, pointer, align=1)
