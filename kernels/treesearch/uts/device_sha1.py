"""SHA-1 of a node's 20 bytes and a child's number, fully unrolled for a GPU thread.

The message has 6 words (192 bits); with padding and length it is one block. Ten of the sixteen words of the block are
constants, which the compiler folds into the additions after inlining. The sixteen live words of the schedule are
variables instead of an array, so that they stay in registers.

Numba widens the arithmetic of unsigned integers to 64 bits; truncating every result lets the compiler keep 32-bit
registers. A rotation is then one instruction (SHF, or LEA.HI with an addition), as is a choice, parity or majority
(LOP3), and the other three additions of a round take two: HASH_INSTRUCTIONS in total at compute capability 9.0.

Source: FIPS 180-4, Secure Hash Standard, sections 4.1.1, 5.1.1 and 6.1.
"""

from __future__ import annotations

from typing import Any

from accelbench.kernels.lib.gpu.numba_cuda import cuda, uint32

CHOICE = uint32(0x5A827999)
PARITY = uint32(0x6ED9EBA1)
MAJORITY = uint32(0x8F1BBCDC)
PARITY_AGAIN = uint32(0xCA62C1D6)
"""Constants of the rounds 0–19, 20–39, 40–59 and 60–79."""

H0, H1, H2, H3, H4 = (
    uint32(0x67452301), uint32(0xEFCDAB89), uint32(0x98BADCFE), uint32(0x10325476), uint32(0xC3D2E1F0),
)  # fmt: skip
END = uint32(0x80000000)
"""Padding bit after the message."""
LENGTH = uint32(192)
ZERO = uint32(0)
HASH_INSTRUCTIONS = 580
"""Instructions per hash by ptxas of CUDA 13: 195 LOP3, 161 additions, 134 SHF, 85 LEA.HI and a few shifts; all but 20
use the integer pipe."""


@cuda.jit(device=True)
def rotate(x: Any, by: Any) -> Any:
    """Return `x` rotated to the left."""
    return uint32(uint32(x << by) | uint32(x >> uint32(uint32(32) - by)))


@cuda.jit(device=True)
def step(a: Any, f: Any, e: Any, k: Any, w: Any) -> Any:
    """Return the new first word of the state after a round."""
    return uint32(uint32(uint32(rotate(a, uint32(5)) + f) + e) + uint32(k + w))


@cuda.jit(device=True)
def choose(b: Any, c: Any, d: Any) -> Any:
    return uint32(d ^ uint32(b & uint32(c ^ d)))


@cuda.jit(device=True)
def parity(b: Any, c: Any, d: Any) -> Any:
    return uint32(uint32(b ^ c) ^ d)


@cuda.jit(device=True)
def majority(b: Any, c: Any, d: Any) -> Any:
    return uint32(uint32(b & c) | uint32(d & uint32(b | c)))


def define_rounds(f: Any, k: Any) -> Any:
    """Return a device function of five rounds with one function and constant; five rounds restore the word order."""

    @cuda.jit(device=True)
    def five(a: Any, b: Any, c: Any, d: Any, e: Any, v: Any, w: Any, x: Any, y: Any, z: Any) -> Any:
        thirty = uint32(30)
        e = step(a, f(b, c, d), e, k, v)
        b = rotate(b, thirty)
        d = step(e, f(a, b, c), d, k, w)
        a = rotate(a, thirty)
        c = step(d, f(e, a, b), c, k, x)
        e = rotate(e, thirty)
        b = step(c, f(d, e, a), b, k, y)
        d = rotate(d, thirty)
        a = step(b, f(c, d, e), a, k, z)
        c = rotate(c, thirty)
        return a, b, c, d, e

    return five


first, second, third, fourth = (
    define_rounds(choose, CHOICE), define_rounds(parity, PARITY), define_rounds(majority, MAJORITY),
    define_rounds(parity, PARITY_AGAIN),
)  # fmt: skip


@cuda.jit(device=True)
def mix(w: Any, x: Any, y: Any, z: Any) -> Any:
    """Return a word of the schedule from the words 16, 14, 8 and 3 positions before it."""
    return rotate(uint32(uint32(w ^ x) ^ uint32(y ^ z)), uint32(1))


@cuda.jit(device=True)
def next_words(
    w0: Any, w1: Any, w2: Any, w3: Any, w4: Any, w5: Any, w6: Any, w7: Any, w8: Any, w9: Any, w10: Any, w11: Any,
    w12: Any, w13: Any, w14: Any, w15: Any,
) -> Any:  # fmt: skip
    """Return the next 16 words of the schedule."""
    w0 = mix(w0, w2, w8, w13)
    w1 = mix(w1, w3, w9, w14)
    w2 = mix(w2, w4, w10, w15)
    w3 = mix(w3, w5, w11, w0)
    w4 = mix(w4, w6, w12, w1)
    w5 = mix(w5, w7, w13, w2)
    w6 = mix(w6, w8, w14, w3)
    w7 = mix(w7, w9, w15, w4)
    w8 = mix(w8, w10, w0, w5)
    w9 = mix(w9, w11, w1, w6)
    w10 = mix(w10, w12, w2, w7)
    w11 = mix(w11, w13, w3, w8)
    w12 = mix(w12, w14, w4, w9)
    w13 = mix(w13, w15, w5, w10)
    w14 = mix(w14, w0, w6, w11)
    w15 = mix(w15, w1, w7, w12)
    return w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13, w14, w15


@cuda.jit(device=True)
def hash_child(w0: Any, w1: Any, w2: Any, w3: Any, w4: Any, child: Any) -> Any:
    """Return the five words of child number `child` of the node with the words w0 to w4."""
    w5, w6, w15 = child, END, LENGTH
    w7 = w8 = w9 = w10 = w11 = w12 = w13 = w14 = ZERO
    a, b, c, d, e = first(H0, H1, H2, H3, H4, w0, w1, w2, w3, w4)
    a, b, c, d, e = first(a, b, c, d, e, w5, w6, w7, w8, w9)
    a, b, c, d, e = first(a, b, c, d, e, w10, w11, w12, w13, w14)
    last = w15
    w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13, w14, w15 = next_words(
        w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13, w14, w15
    )
    a, b, c, d, e = first(a, b, c, d, e, last, w0, w1, w2, w3)
    a, b, c, d, e = second(a, b, c, d, e, w4, w5, w6, w7, w8)
    a, b, c, d, e = second(a, b, c, d, e, w9, w10, w11, w12, w13)
    v14, v15 = w14, w15
    w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13, w14, w15 = next_words(
        w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13, w14, w15
    )
    a, b, c, d, e = second(a, b, c, d, e, v14, v15, w0, w1, w2)
    a, b, c, d, e = second(a, b, c, d, e, w3, w4, w5, w6, w7)
    a, b, c, d, e = third(a, b, c, d, e, w8, w9, w10, w11, w12)
    v13, v14, v15 = w13, w14, w15
    w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13, w14, w15 = next_words(
        w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13, w14, w15
    )
    a, b, c, d, e = third(a, b, c, d, e, v13, v14, v15, w0, w1)
    a, b, c, d, e = third(a, b, c, d, e, w2, w3, w4, w5, w6)
    a, b, c, d, e = third(a, b, c, d, e, w7, w8, w9, w10, w11)
    v12, v13, v14, v15 = w12, w13, w14, w15
    w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13, w14, w15 = next_words(
        w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13, w14, w15
    )
    a, b, c, d, e = fourth(a, b, c, d, e, v12, v13, v14, v15, w0)
    a, b, c, d, e = fourth(a, b, c, d, e, w1, w2, w3, w4, w5)
    a, b, c, d, e = fourth(a, b, c, d, e, w6, w7, w8, w9, w10)
    a, b, c, d, e = fourth(a, b, c, d, e, w11, w12, w13, w14, w15)
    return uint32(H0 + a), uint32(H1 + b), uint32(H2 + c), uint32(H3 + d), uint32(H4 + e)
