"""C = A·B on the CPU where B has few columns: dot products along the rows of A.

Bound: memory, through which A passes once for 2·n operations per element. A tile of C as wide as two vectors would be
mostly empty, so vectors lie along k instead: rows of A are read as they are, columns of B from a transposed copy, a
piece of which stays in the L1 cache while all rows of a block pass by.

Measured against OpenBLAS 0.3.31 on one core of an AMD Zen 3, 7680×n×2560 in float32: 0.7 of its rate for n=1, 1.1 or
more for n=3 and 7, 0.6 for n=16.
"""

from __future__ import annotations

from typing import Any

from numba import prange

from kernels.simd import add_lanes, fma, lanes_of, load, splat
from kernels.threads import compiled, parallel, take_next

COLUMNS = 4
"""Columns multiplied at once: each vector of A is then used four times."""


@compiled
def dot(a: Any, at_a: int, b: Any, at_b: int, depth: int) -> Any:
    """Return Σ a·b of `depth` elements, in four independent sums."""
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
def dot_columns(a: Any, at_a: int, b: Any, at_b: int, stride: int, depth: int, c: Any, at_c: int) -> None:
    """Add to c[at_c:] the dot products of a row of A with COLUMNS columns of B, which are `stride` apart."""
    lanes = lanes_of(a)
    s0 = s1 = s2 = s3 = splat(a.dtype.type(0))
    whole = depth // lanes * lanes
    for d in range(0, whole, lanes):
        row = load(a, at_a + d)
        s0 = fma(row, load(b, at_b + d), s0)
        s1 = fma(row, load(b, at_b + d + stride), s1)
        s2 = fma(row, load(b, at_b + d + 2 * stride), s2)
        s3 = fma(row, load(b, at_b + d + 3 * stride), s3)
    c[at_c] += add_lanes(s0)
    c[at_c + 1] += add_lanes(s1)
    c[at_c + 2] += add_lanes(s2)
    c[at_c + 3] += add_lanes(s3)
    for d in range(whole, depth):
        for j in range(COLUMNS):
            c[at_c + j] += a[at_a + d] * b[at_b + d + j * stride]


@parallel
def multiply_narrow(
    a: Any, b: Any, c: Any, m: int, n: int, k: int, rows: int, piece: int, transposed: Any, threads: int, counter: Any
) -> None:
    """Do C = A·B of flat arrays for n ≥ 1, best few; a thread takes `rows` rows at a time, `piece` elements of each.

    `transposed` is as large as B.
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
                for i in range(matrix * m + first, matrix * m + min(first + rows, m)):
                    if d == 0:
                        c[i * n : i * n + n] = 0
                    for j in range(0, n, COLUMNS):
                        column = (matrix * n + j) * k + d
                        if j + COLUMNS <= n:
                            dot_columns(a, i * k + d, transposed, column, k, depth, c, i * n + j)
                        else:
                            for rest in range(n - j):
                                c[i * n + j + rest] += dot(a, i * k + d, transposed, column + rest * k, depth)
            block = take_next(counter)
