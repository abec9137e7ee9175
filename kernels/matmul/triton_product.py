"""C = A·B in Triton: a block of threads computes a tile of C (see `gpu_triton`)."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def matmul_triton(
    a: tl.tensor,
    b: tl.tensor,
    c: tl.tensor,
    m: tl.tensor,
    n_units: tl.tensor,
    k_units: tl.tensor,
    UNIT: tl.constexpr,
    TILE_M: tl.constexpr,
    TILE_N: tl.constexpr,
    TILE_K: tl.constexpr,
    GROUP: tl.constexpr,
    WHOLE: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    """Multiply contiguous matrices: A (batch, m, k), B (batch, k, n) and C (batch, m, n).

    k and n are given in units of `UNIT` elements, so that the compiler knows the alignment of the rows. With `WHOLE`,
    k is a multiple of `TILE_K`. The grid has a program per tile, and the batch as its second dimension.
    """
    n = n_units * UNIT
    k = k_units * UNIT
    rows = tl.cdiv(m, TILE_M)
    columns = tl.cdiv(n, TILE_N)
    # Concurrent programs compute neighbouring tiles, GROUP rows high, which share A and B in L2.
    tile = tl.program_id(0)
    group = tile // (GROUP * columns)
    first = group * GROUP
    height = min(rows - first, GROUP)
    row = first + tile % (GROUP * columns) % height
    column = tile % (GROUP * columns) // height
    batch = tl.program_id(1).to(tl.int64)
    # Rows and columns outside of C wrap around: they are computed, but not stored.
    i = row * TILE_M + tl.arange(0, TILE_M)
    j = column * TILE_N + tl.arange(0, TILE_N)
    p = tl.arange(0, TILE_K)
    a += batch * m * k
    b += batch * k * n
    a_tile = a + (i % m)[:, None].to(tl.int64) * k + p[None, :]
    b_tile = b + p[:, None].to(tl.int64) * n + (j % n)[None, :]
    sums = tl.zeros((TILE_M, TILE_N), tl.float32)
    for begin in range(0, k, TILE_K):
        if WHOLE:
            left = tl.load(a_tile)
            right = tl.load(b_tile)
        else:
            left = tl.load(a_tile, mask=p[None, :] < k - begin, other=0.0)
            right = tl.load(b_tile, mask=p[:, None] < k - begin, other=0.0)
        sums = tl.dot(left, right, sums, input_precision=PRECISION)
        a_tile += TILE_K
        b_tile += TILE_K * n.to(tl.int64)
    c_tile = c + batch * m * n + i[:, None].to(tl.int64) * n + j[None, :]
    tl.store(c_tile, sums.to(c.dtype.element_ty), mask=(i[:, None] < m) & (j[None, :] < n))
