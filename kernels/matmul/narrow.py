"""C = A·B on the CPU for B with few columns: dot products along the rows of A.

Bound: memory; A is read once, for 2·n FLOP per element. A tile of C two vectors wide would be mostly empty, so vectors
run along k instead: rows of A are read in place, columns of B from a transposed copy, of which a piece stays in L1
while all rows of a block are multiplied.

Measured, compared with OpenBLAS 0.3.31 on one core of an AMD Zen 4, 7680×n×2560: 0.97× in float32 and 1.15× in float64
for n=1; 2× for n=3.
"""

from __future__ import annotations

from typing import Any

from numba import prange

from accelbench.kernels.lib.cpu.simd import add_lanes, fma, lanes_of, load, splat
from accelbench.kernels.lib.cpu.threads import compiled, parallel, take_next

TOGETHER = 4
"""Dot products computed at the same time with one shared operand: a row of A with four columns of B, so that each
vector of A is used four times, or a column of B with four rows of A, which are then read from memory concurrently."""


@compiled
def dot(a: Any, at_a: int, b: Any, at_b: int, depth: int) -> Any:
    """Return Σ a·b of `depth` elements, computed by four independent sums."""
    lanes = lanes_of(a)
    s0 = s1 = s2 = s3 = splat(a.dtype.type(0))
    whole = depth // (4 * lanes) * (4 * lanes)
    for d in range(0, whole, 4 * lanes):
        i, j = at_a + d, at_b + d
        s0 = fma(load(a, i), load(b, j), s0)
        s1 = fma(load(a, i + lanes), load(b, j + lanes), s1)
        s2 = fma(load(a, i + 2 * lanes), load(b, j + 2 * lanes), s2)
        s3 = fma(load(a, i + 3 * lanes), load(b, j + 3 * lanes), s3)
    total = (add_lanes(s0) + add_lanes(s1)) + (add_lanes(s2) + add_lanes(s3))
    for d in range(whole, depth):
        total += a[at_a + d] * b[at_b + d]
    return total


@compiled
def dots(
    shared: Any, at: int, others: Any, first: int, stride: int, depth: int, c: Any, at_c: int, spacing: int
) -> None:
    """Add the dot products of one part of `shared` with TOGETHER parts of `others` to elements of C `spacing` apart."""
    lanes = lanes_of(shared)
    s0 = s1 = s2 = s3 = splat(shared.dtype.type(0))
    whole = depth // lanes * lanes
    for d in range(0, whole, lanes):
        factor = load(shared, at + d)
        s0 = fma(factor, load(others, first + d), s0)
        s1 = fma(factor, load(others, first + d + stride), s1)
        s2 = fma(factor, load(others, first + d + 2 * stride), s2)
        s3 = fma(factor, load(others, first + d + 3 * stride), s3)
    c[at_c] += add_lanes(s0)
    c[at_c + spacing] += add_lanes(s1)
    c[at_c + 2 * spacing] += add_lanes(s2)
    c[at_c + 3 * spacing] += add_lanes(s3)
    for d in range(whole, depth):
        for i in range(TOGETHER):
            c[at_c + i * spacing] += shared[at + d] * others[first + d + i * stride]


@compiled
def dots_of_rows(
    a: Any, at_a: int, b: Any, at_b: int, k: int, depth: int, c: Any, at_c: int, rows: int, n: int
) -> None:
    """Add the dot products of `rows` ≤ TOGETHER rows of A with n columns of B, of which `b` is the transpose, to C."""
    whole = n // TOGETHER * TOGETHER
    for i in range(rows):
        for j in range(0, whole, TOGETHER):
            dots(a, at_a + i * k, b, at_b + j * k, k, depth, c, at_c + i * n + j, 1)
    for j in range(whole, n):
        if rows == TOGETHER:
            dots(b, at_b + j * k, a, at_a, k, depth, c, at_c + j, n)
        else:
            for i in range(rows):
                c[at_c + i * n + j] += dot(a, at_a + i * k, b, at_b + j * k, depth)


@parallel
def multiply_narrow(
    a: Any, b: Any, c: Any, m: int, n: int, k: int, rows: int, piece: int, transposed: Any, threads: int, counter: Any
) -> None:
    """Compute C = A·B of flat arrays, fast for small n; a thread takes `rows` rows at a time, `piece` elements of each.

    `transposed` is a buffer of the size of B.
    """
    batch = len(c) // (m * n)
    pieces = (k + piece - 1) // piece
    for number in prange(batch * pieces):
        matrix, begin = number // pieces, number % pieces * piece
        for j in range(n):
            for d in range(begin, min(begin + piece, k)):
                transposed[(matrix * n + j) * k + d] = b[(matrix * k + d) * n + j]
    blocks = (m + rows - 1) // rows
    counter[0] = 0
    for _ in prange(threads):
        block = take_next(counter)
        while block < batch * blocks:
            matrix, first = block // blocks, block % blocks * rows
            for d in range(0, k, piece):
                depth = min(piece, k - d)
                end = matrix * m + min(first + rows, m)
                for i in range(matrix * m + first, end, TOGETHER):
                    here = min(TOGETHER, end - i)
                    if d == 0:
                        c[i * n : (i + here) * n] = 0
                    dots_of_rows(a, i * k + d, transposed, matrix * n * k + d, k, depth, c, i * n, here, n)
            block = take_next(counter)
