"""C = A·B in tiles, for Numba-CUDA: a block computes a tile of C, each thread a part of it in registers.

Bound: the FMA units (see `gpu_numba`). A slice, `depth` columns of A and rows of B, is double-buffered in shared
memory: while the threads multiply one slice, the next one is loaded from global memory into registers, and is then
stored to the other buffer, with one barrier per slice. Slices have the layout of global memory, so that all accesses
are 16 bytes wide; a thread reads its rows of A for as many k as 16 bytes hold. The loop has no bounds checks: the
incomplete slice is the first one and is padded with zeros, and threads beyond the edge of the matrices load the last
row or column.

Each row of A's slice is padded by 16 bytes, so that the 8 rows that a warp reads or writes at a time start in different
banks. Tiles are scheduled in bands of 8 rows, so that concurrent blocks share both A and B in L2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from accelbench.kernels.lib.gpu.numba_cuda import cuda, int64, unrolled
from accelbench.kernels.lib.gpu.wide_access import ACCESS_BYTES, lanes, load_wide, store_wide

WARP = 32
WARP_ROWS, WARP_COLUMNS = 8, 4
"""Arrangement of the threads of a warp over C, chosen so that a warp reads few distinct 16 bytes of A and of B."""
BAND = 8
"""Rows of tiles that are scheduled together."""


@dataclass(frozen=True)
class Tiling:
    """Tile of C of a block, and part of each thread; the threads of a warp are arranged 8 down and 4 across."""

    rows: int
    columns: int
    rows_per_thread: int
    columns_per_thread: int
    blocks: int
    """Resident blocks per multiprocessor, limited by registers: one computes while another waits at a barrier."""
    depth: int = 8
    """Columns of A and rows of B in one slice: 32 bytes of a float32 row of A, one memory sector."""

    @property
    def threads_down(self) -> int:
        return self.rows // self.rows_per_thread

    @property
    def threads_across(self) -> int:
        return self.columns // self.columns_per_thread

    @property
    def threads(self) -> int:
        return self.threads_down * self.threads_across


def define_tiled(real: Any, tiling: Tiling) -> Callable[..., None]:
    """Return `multiply(a, b, c, m, n, k, each)` on flat arrays, for a grid of (tiles, parts of k, matrices of a batch).

    A part is `each` slices of k; c contains the sums of all parts, with the shape (parts, batch, m, n). The sizes per
    thread are powers of two. A thread's rows are `threads_down` apart; its columns are groups of 16 bytes (`wide`
    elements), `step_across` apart, so that adjacent threads read adjacent rows and adjacent 16 bytes.
    """
    wide = lanes(real)
    depth, threads, rows, columns = tiling.depth, tiling.threads, tiling.rows, tiling.columns
    threads_down, mine_down, mine_across = tiling.threads_down, tiling.rows_per_thread, tiling.columns_per_thread
    mine, of_a, groups = mine_down * mine_across, mine_down * wide, mine_across // wide
    step_across = tiling.threads_across * wide
    warps_down = threads_down // WARP_ROWS
    pitch = depth + wide
    slice_a, slice_b = rows * pitch, depth * columns
    # The buffers are a power of two apart, so that an exclusive or switches between them.
    apart_a, apart_b = (1 << (size - 1).bit_length() for size in (slice_a, slice_b))
    both_a, both_b = apart_a + slice_a, apart_b + slice_b
    per_row_a, per_row_b = depth // wide, columns // wide
    loads_a, loads_b = rows * per_row_a // threads, depth * per_row_b // threads
    held_a, held_b = loads_a * wide, loads_b * wide
    rows_apart, depths_apart = threads // per_row_a, threads // per_row_b

    @cuda.jit(device=True)
    def add_row(s: int, where: Any) -> None:
        """Add the products of column s of the thread's part of A, in registers, and row s of its part of B."""
        sums, held, slices_b, at_b = where
        row = cuda.local.array(mine_across, real)
        for g in range(groups):
            load_wide(row, g * wide, slices_b, at_b + s * columns + g * step_across)
        for i in range(mine_down):
            for j in range(mine_across):
                sums[i * mine_across + j] += held[i * wide + s] * row[j]

    add_rows = unrolled(add_row, wide)

    @cuda.jit(device=True)
    def add_group(group: int, where: Any) -> None:
        sums, slices_a, at_a, slices_b, at_b = where
        held = cuda.local.array(of_a, real)
        for i in range(mine_down):
            load_wide(held, i * wide, slices_a, at_a + i * threads_down * pitch + group * wide)
        add_rows(0, (sums, held, slices_b, at_b + group * wide * columns))

    add_slice = unrolled(add_group, depth // wide)

    @cuda.jit(device=True)
    def put(slices_a: Any, at_a: int, fetched_a: Any, slices_b: Any, at_b: int, fetched_b: Any) -> None:
        for load in range(loads_a):
            store_wide(slices_a, at_a + load * rows_apart * pitch, fetched_a, load * wide)
        for load in range(loads_b):
            store_wide(slices_b, at_b + load * depths_apart * columns, fetched_b, load * wide)

    @cuda.jit(device=True)
    def store_row(i: int, where: Any) -> None:
        c, place, n, sums, rows_left, columns_left = where
        if i * threads_down < rows_left:
            for g in range(groups):
                if g * step_across < columns_left:
                    store_wide(c, place + i * threads_down * n + g * step_across, sums, i * mine_across + g * wide)

    store = unrolled(store_row, mine_down)

    def multiply(a: Any, b: Any, c: Any, m: Any, n: Any, k: Any, each: Any) -> None:
        slices_a = cuda.shared.array(both_a, real, alignment=ACCESS_BYTES)
        slices_b = cuda.shared.array(both_b, real, alignment=ACCESS_BYTES)
        sums = cuda.local.array(mine, real)
        fetched_a = cuda.local.array(held_a, real)
        fetched_b = cuda.local.array(held_b, real)
        places_a = cuda.local.array(loads_a, int64)
        zero = real(0)
        thread = cuda.threadIdx.x
        matrix, part_of_k = np.int64(cuda.blockIdx.z), np.int64(cuda.blockIdx.y)
        for i in range(mine):
            sums[i] = zero

        # Tile of this block: in a band, tiles are numbered column by column.
        down, across = (m + rows - 1) // rows, (n + columns - 1) // columns
        band = cuda.blockIdx.x // (BAND * across)
        in_band = cuda.blockIdx.x - band * BAND * across
        height = min(BAND, down - band * BAND)
        first_row = (band * BAND + in_band % height) * rows
        first_column = in_band // height * columns

        # Position of this thread's part of C in the tile.
        lane, warp = thread % WARP, thread // WARP
        y = warp % warps_down * WARP_ROWS + (lane >> 1 & 7)
        x = (warp // warps_down * WARP_COLUMNS + (lane & 1 | lane >> 3 & 2)) * wide

        # The first slice of k may be incomplete: `whole` columns of A, padded with zeros.
        slices = (k + depth - 1) // depth
        first = part_of_k * each
        turns = np.int32(min(each, slices - first) - 1)
        whole = k - (slices - 1) * depth
        begin = np.int64(0)
        if first > 0:
            begin = whole + (first - 1) * depth
            whole = np.int64(depth)

        # Instead of rows and columns beyond the matrix, the thread loads the last ones; their products are not stored.
        i_a, k_a = thread // per_row_a, thread % per_row_a * wide
        k_b, j_b = thread // per_row_b, thread % per_row_b * wide
        put_a, put_b = i_a * pitch + k_a, k_b * columns + j_b
        for load in range(loads_a):
            row = min(first_row + i_a + load * rows_apart, m - 1)
            places_a[load] = (matrix * m + row) * k + begin + k_a
        place_b = (matrix * k + begin + k_b) * n + min(first_column + j_b, n - wide)
        for i in range(held_a):
            fetched_a[i] = zero
        for i in range(held_b):
            fetched_b[i] = zero
        for load in range(loads_a):
            if k_a < whole:
                load_wide(fetched_a, load * wide, a, places_a[load])
            places_a[load] += whole
        for load in range(loads_b):
            if k_b + load * depths_apart < whole:
                load_wide(fetched_b, load * wide, b, place_b + np.int64(load * depths_apart) * n)
        place_b += whole * n
        put(slices_a, put_a, fetched_a, slices_b, put_b, fetched_b)
        cuda.syncthreads()

        at_a, at_b = y * pitch, x
        for _turn in range(turns):
            for load in range(loads_a):
                load_wide(fetched_a, load * wide, a, places_a[load])
                places_a[load] += depth
            for load in range(loads_b):
                load_wide(fetched_b, load * wide, b, place_b + np.int64(load * depths_apart) * n)
            place_b += np.int64(depth) * n
            add_slice(0, (sums, slices_a, at_a, slices_b, at_b))
            put_a, put_b = put_a ^ apart_a, put_b ^ apart_b
            put(slices_a, put_a, fetched_a, slices_b, put_b, fetched_b)
            at_a, at_b = at_a ^ apart_a, at_b ^ apart_b
            cuda.syncthreads()
        add_slice(0, (sums, slices_a, at_a, slices_b, at_b))

        row, column = first_row + y, first_column + x
        place = ((part_of_k * cuda.gridDim.z + matrix) * m + row) * n + column
        store(0, (c, place, np.int64(n), sums, m - row, n - column))

    return multiply
