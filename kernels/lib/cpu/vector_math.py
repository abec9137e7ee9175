"""Maximum and exponential of vector registers, for Numba kernels (see `simd`)."""

from __future__ import annotations

from functools import reduce
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from accelbench.kernels.lib.cpu.simd import Vector, fma_function, vector_ir

SMALLEST = -86.0
"""Argument below which `exponential` returns e⁻⁸⁶ = 4·10⁻³⁸, which is still a normal number."""
LOG2_E = 1.44269504088896341
LN_2 = 0.693359375, -2.12194440e-4
"""ln 2 as a sum of two numbers: the first has so few bits that its product with a small whole number is exact."""
COEFFICIENTS = 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1
"""Cephes' polynomial for (eʳ − 1 − r) / r² where |r| ≤ ln 2 / 2 (S. L. Moshier, `expf.c`)."""
ROUNDS = 1.5 * 2**23
"""Magic number for rounding: its sum with a small float32 has no fractional bits, and its low bits are the rounded
number."""


def _larger(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


@intrinsic
def larger(typing: Any, a: Any, b: Any) -> Any:
    """Return the larger of two vectors, lane by lane."""
    if not (isinstance(a, Vector) and a == b):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _larger(builder, *arguments)

    return a(a, b), codegen


@intrinsic
def largest_lane(typing: Any, vector: Any) -> Any:
    """Return the largest of a vector's elements."""
    if not isinstance(vector, Vector):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        places = [ir.Constant(ir.IntType(32), i) for i in range(vector_ir(vector.dtype).count)]
        elements = [builder.extract_element(arguments[0], place) for place in places]
        return reduce(lambda a, b: _larger(builder, a, b), elements)

    return vector.dtype(vector), codegen


@intrinsic
def exponential(typing: Any, x: Any) -> Any:
    """Return eˣ of a float32 vector of numbers up to 0, within 2 units in the last place; e⁻⁸⁶ for all below −86.

    x = n·ln 2 + r with whole n, so that eˣ = 2ⁿ·eʳ: eʳ is a polynomial, and n is added to its exponent's bits.
    """
    if x != Vector(types.float32):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = vector_ir(types.float32)
        bits = ir.VectorType(ir.IntType(32), vector.count)
        multiply_add = fma_function(builder, vector)

        def constant(number: float) -> Any:
            return ir.Constant(vector, [number] * vector.count)

        def fma(a: Any, b: Any, c: Any) -> Any:
            return builder.call(multiply_add, [a, b, c])

        value = _larger(builder, arguments[0], constant(SMALLEST))
        shifted = fma(value, constant(LOG2_E), constant(ROUNDS))
        n = builder.fsub(shifted, constant(ROUNDS))
        rest = fma(n, constant(-LN_2[1]), fma(n, constant(-LN_2[0]), value))
        total = constant(COEFFICIENTS[0])
        for coefficient in COEFFICIENTS[1:]:
            total = fma(total, rest, constant(coefficient))
        total = builder.fadd(fma(total, builder.fmul(rest, rest), rest), constant(1.0))
        exponent = builder.shl(builder.bitcast(shifted, bits), ir.Constant(bits, [23] * vector.count))
        return builder.bitcast(builder.add(builder.bitcast(total, bits), exponent), vector)

    return x(x), codegen
