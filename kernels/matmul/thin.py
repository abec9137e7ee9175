"""C = A·B for C with few columns or rows, for Numba-CUDA: a matrix times one or a few vectors.

Bound: device memory. The large matrix (A if C has few columns, B if it has few rows) is read once, with coalesced
accesses of 16 bytes, for 2 FLOP per element and column (or row) of C. Every block reads the small matrix again, from
the caches.

Both kernels have the signature and the grid of `tiled`, (tiles, parts of k, matrices of the batch), and write the sums
of each part of k, of `each` slices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from accelbench.kernels.lib.gpu.numba_cuda import cuda, int64, unrolled
from accelbench.kernels.lib.gpu.wide_access import ACCESS_BYTES, lanes, load_wide, store_wide

WARP = 32
WARPS = 4
THREADS = WARPS * WARP
MOST = 16
"""Largest number of columns or rows of C for which these kernels are used: 8 FLOP per byte of float32."""
HELD_BYTES = 256
"""Bytes of the sums of one thread: 64 registers, a quarter of its maximum, which leaves registers for loads."""
MOST_ROWS = 8
"""Maximum rows of A that a warp reads at the same time: 128 bytes in flight per thread."""


def blocks_at_once(size: int) -> int:
    """Return the resident blocks per multiprocessor for `size` columns or rows; three leave a thread 168 registers."""
    return 3 if size < MOST else 2


def rows_of_a_warp(real: Any, columns: int) -> int:
    """Return the rows of C that a warp computes if C has at most `columns` columns, a power of two."""
    return min(MOST_ROWS, HELD_BYTES * 8 // int(real.bitwidth) // columns)


def define_few_columns(real: Any, columns: int) -> Callable[..., None]:
    """Return `multiply(a, b, c, m, n, k, each)` for n ≤ `columns`, a power of two: each warp multiplies rows of A by B.

    A slice is the part of a row that the lanes of a warp read in one access. The sums of the lanes are added in shared
    memory, `at_once` sums of each lane at a time, each by one lane.
    """
    wide = lanes(real)
    rows, groups = rows_of_a_warp(real, columns), columns // wide
    depth, mine, held_a = WARP * wide, rows * columns, rows * wide
    at_once = min(16, mine)
    pitch = at_once + 1  # avoids bank conflicts between the sums of different lanes
    per_warp = WARP * pitch
    all_warps = WARPS * per_warp

    @cuda.jit(device=True)
    def add_products(i: int, where: Any) -> None:
        sums, held, s, row = where
        for j in range(columns):
            sums[i * columns + j] += held[i * wide + s] * row[j]

    add_column = unrolled(add_products, rows)

    @cuda.jit(device=True)
    def add_row(s: int, where: Any) -> None:
        """Add the products of column s of the thread's part of A and a row of B."""
        sums, held, b, place_b, n = where
        row = cuda.local.array(columns, real)
        for g in range(groups):
            load_wide(row, g * wide, b, place_b + s * n + min(g * wide, n - wide))
        add_column(0, (sums, held, s, row))

    add_rows = unrolled(add_row, wide)

    @cuda.jit(device=True)
    def add_lanes(turn: int, where: Any) -> None:
        sums, lane_sums, warp, lane, c, place, rows_left, n = where
        for i in range(at_once):
            lane_sums[warp * per_warp + lane * pitch + i] = sums[turn * at_once + i]
        cuda.syncthreads()
        row, column = (turn * at_once + lane) // columns, (turn * at_once + lane) % columns
        if lane < at_once and row < rows_left and column < n:
            total = real(0)
            for other in range(WARP):
                total += lane_sums[warp * per_warp + other * pitch + lane]
            c[place + row * n + column] = total
        cuda.syncthreads()

    finish = unrolled(add_lanes, mine // at_once)

    def multiply(a: Any, b: Any, c: Any, m: Any, n: Any, k: Any, each: Any) -> None:
        lane_sums = cuda.shared.array(all_warps, real)
        sums = cuda.local.array(mine, real)
        held = cuda.local.array(held_a, real)
        places_a = cuda.local.array(rows, int64)
        lane, warp = cuda.threadIdx.x % WARP, cuda.threadIdx.x // WARP
        matrix, part_of_k = np.int64(cuda.blockIdx.z), np.int64(cuda.blockIdx.y)
        first_row = (np.int64(cuda.blockIdx.x) * WARPS + warp) * rows
        for i in range(mine):
            sums[i] = real(0)
        begin = part_of_k * each * depth + lane * wide
        count = np.int32((min(k, (part_of_k + 1) * each * depth) - begin + depth - 1) // depth)
        for i in range(rows):
            places_a[i] = (matrix * m + min(first_row + i, m - 1)) * k + begin
        place_b = (matrix * k + begin) * n
        for _slice in range(count):
            for i in range(rows):
                load_wide(held, i * wide, a, places_a[i])
                places_a[i] += depth
            add_rows(0, (sums, held, b, place_b, np.int64(n)))
            place_b += np.int64(depth) * n
        place = ((part_of_k * cuda.gridDim.z + matrix) * m + first_row) * n
        finish(0, (sums, lane_sums, warp, lane, c, place, m - first_row, np.int64(n)))

    return multiply


def define_few_rows(real: Any, rows: int) -> Callable[..., None]:
    """Return `multiply(a, b, c, m, n, k, each)` for m ≤ `rows`, a power of two: lanes read adjacent parts of rows of B.

    The warps of a block compute the same columns for different parts of k. A slice is their part of one iteration: 16
    bytes of each row of A per warp. The sums of the warps are added in shared memory, one row of C at a time.
    """
    wide = lanes(real)
    across, depth, mine, held_b = WARP * wide, WARPS * wide, rows * wide, wide * wide
    all_warps = WARPS * across

    @cuda.jit(device=True)
    def add_row(i: int, where: Any) -> None:
        """Add the products of 16 bytes of row i of A and the thread's part of rows of B."""
        sums, held, a, place_a, m, k = where
        row = cuda.local.array(wide, real)
        load_wide(row, 0, a, place_a + min(i, m - 1) * k)
        for s in range(wide):
            for j in range(wide):
                sums[i * wide + j] += row[s] * held[s * wide + j]

    add_rows = unrolled(add_row, rows)

    @cuda.jit(device=True)
    def add_warps(i: int, where: Any) -> None:
        sums, warp_sums, thread, c, place, m, n, columns_left = where
        if i < m:
            store_wide(warp_sums, thread * wide, sums, i * wide)
            cuda.syncthreads()
            if thread < across and thread < columns_left:
                total = real(0)
                for warp in range(WARPS):
                    total += warp_sums[warp * across + thread]
                c[place + i * n + thread] = total
            cuda.syncthreads()

    finish = unrolled(add_warps, rows)

    def multiply(a: Any, b: Any, c: Any, m: Any, n: Any, k: Any, each: Any) -> None:
        warp_sums = cuda.shared.array(all_warps, real, alignment=ACCESS_BYTES)
        sums = cuda.local.array(mine, real)
        held = cuda.local.array(held_b, real)
        thread = cuda.threadIdx.x
        lane, warp = thread % WARP, thread // WARP
        matrix, part_of_k = np.int64(cuda.blockIdx.z), np.int64(cuda.blockIdx.y)
        first_column = np.int64(cuda.blockIdx.x) * across
        for i in range(mine):
            sums[i] = real(0)
        begin = part_of_k * each * depth + warp * wide
        end = min(k, (part_of_k + 1) * each * depth)
        place_a = matrix * m * k + begin
        place_b = (matrix * k + begin) * n + min(first_column + lane * wide, n - wide)
        for _at in range(begin, end, depth):
            for s in range(wide):
                load_wide(held, s * wide, b, place_b + s * np.int64(n))
            add_rows(0, (sums, held, a, place_a, np.int64(m), np.int64(k)))
            place_a += depth
            place_b += np.int64(depth) * n
        place = (part_of_k * cuda.gridDim.z + matrix) * m * n + first_column
        finish(0, (sums, warp_sums, thread, c, place, np.int64(m), np.int64(n), n - first_column))

    return multiply
