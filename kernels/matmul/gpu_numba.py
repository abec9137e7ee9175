"""C = A·B by our own tiled Numba-CUDA kernel, in plain FP32 or FP64 arithmetic (no tensor cores).

Bound: 2·m·n·k floating-point operations by the FMA units. A block computes a tile of C, 128×128 in float32, and reads
(128 + 128)·k elements for it: 32 FLOP per byte from L2 or memory, above what any card's memory needs. Inside a block
each thread keeps 8×8 sums in registers, so that 16 elements out of shared memory, four reads of 16 bytes, feed 64 FMAs.
float64 has registers twice as wide, hence 128×64 tiles of 8×4 sums.

A slice, DEPTH columns of A and rows of B, has two places in shared memory: while the threads multiply what is in one,
the next slice is on its way from global memory into registers, and goes into the other place when they are done, with
one barrier per slice. All accesses but the writes of A, which is stored across, are of 16 bytes. No bounds are checked
in the loop: a slice that is not whole comes first and is filled with zeros, and threads beyond the edge of C fetch its
last row or column again.

Of the 591 instructions that a float32 slice takes on compute capability 9.0, 512 are FFMA (0.87; of 594 on 8.0 and 587
on 10.0) and 32 are 16-byte reads of shared memory; 125 registers, none spilled, let two blocks share a multiprocessor.
float64: 256 DFMA of 397, where a DFMA takes two issue slots or more. There is one block per tile of C: with a small C
and a long k, most multiprocessors get none.

Measured share: not measured yet on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels.device_code import DeviceKernel, NumbaKernel
from kernels.matmul.gpu_task import Operands, gpu_task
from kernels.matmul.shapes import Product
from kernels.numba_cuda import cuda, float32, float64, int32, int64, numba_stream, simulated, void
from kernels.wide_access import ACCESS_BYTES, lanes, load_wide, store_wide
from profiling.benchmark import Point, Skip, Task

DEPTH = 8
"""Columns of A and rows of B in one slice: 32 bytes of a float32 row of A, one memory sector."""
BLOCKS_PER_MULTIPROCESSOR = 2
"""One computes while the other waits at its barrier: at most 128 registers for each of 2·256 threads."""
WARP = 32
WARP_ROWS, WARP_COLUMNS = 8, 4
"""Threads of a warp down and across its part of C, so that a warp reads few different 16 bytes of A and of B."""


@dataclass(frozen=True)
class Tiling:
    """What a block computes of C, and what each of its threads; threads come in warps of 8 down and 4 across."""

    rows: int
    columns: int
    rows_per_thread: int
    columns_per_thread: int

    @property
    def threads_down(self) -> int:
        return self.rows // self.rows_per_thread

    @property
    def threads_across(self) -> int:
        return self.columns // self.columns_per_thread

    @property
    def threads(self) -> int:
        return self.threads_down * self.threads_across


def define_kernel(real: Any, tiling: Tiling) -> Callable[..., None]:
    """`multiply(a, b, c, m, n, k)` on flat arrays; the third index of the grid counts the matrices of a batch.

    A thread's rows are groups of one access (`wide`), `step_down` apart, its columns likewise: neighbours read
    neighbouring 16 bytes.
    """
    wide = lanes(real)
    threads, rows, columns = tiling.threads, tiling.rows, tiling.columns
    mine_down, mine_across = tiling.rows_per_thread, tiling.columns_per_thread
    mine, groups_down, groups_across = mine_down * mine_across, mine_down // wide, mine_across // wide
    step_down, step_across = tiling.threads_down * wide, tiling.threads_across * wide
    warps_down = tiling.threads_down // WARP_ROWS
    pitch = rows + wide  # of the slice of A: the elements that a warp writes across then fall into different banks
    slice_a, slice_b = DEPTH * pitch, DEPTH * columns
    # The second slice lies a power of two behind the first: one exclusive or leads from one to the other.
    apart_a, apart_b = (1 << (size - 1).bit_length() for size in (slice_a, slice_b))
    both_a, both_b = apart_a + slice_a, apart_b + slice_b
    per_row_a, per_row_b = DEPTH // wide, columns // wide
    loads_a, loads_b = rows * per_row_a // threads, DEPTH * per_row_b // threads
    held_a, held_b = loads_a * wide, loads_b * wide
    rows_apart, depths_apart = threads // per_row_a, threads // per_row_b

    @cuda.jit(device=True)
    def add_products(sums: Any, slices_a: Any, at_a: int, slices_b: Any, at_b: int) -> None:
        column = cuda.local.array(mine_down, real)
        row = cuda.local.array(mine_across, real)
        for g in range(groups_down):
            load_wide(column, g * wide, slices_a, at_a + g * step_down)
        for g in range(groups_across):
            load_wide(row, g * wide, slices_b, at_b + g * step_across)
        for i in range(mine_down):
            for j in range(mine_across):
                sums[i * mine_across + j] += column[i] * row[j]

    @cuda.jit(device=True)
    def put(slices_a: Any, at_a: int, fetched_a: Any, slices_b: Any, at_b: int, fetched_b: Any) -> None:
        for load in range(loads_a):
            for i in range(wide):
                slices_a[np.uint32(at_a + i * pitch + load * rows_apart)] = fetched_a[load * wide + i]
        for load in range(loads_b):
            store_wide(slices_b, at_b + load * depths_apart * columns, fetched_b, load * wide)

    def multiply(a: Any, b: Any, c: Any, m: int, n: int, k: int) -> None:
        slices_a = cuda.shared.array(both_a, real, alignment=ACCESS_BYTES)
        slices_b = cuda.shared.array(both_b, real, alignment=ACCESS_BYTES)
        sums = cuda.local.array(mine, real)
        fetched_a = cuda.local.array(held_a, real)
        fetched_b = cuda.local.array(held_b, real)
        places_a = cuda.local.array(loads_a, int64)
        zero = real(0)
        thread = cuda.threadIdx.x
        first_row = cuda.blockIdx.y * rows
        first_column = cuda.blockIdx.x * columns
        matrix = np.int64(cuda.blockIdx.z)
        for i in range(mine):
            sums[i] = zero

        # Where this thread's part of C lies in the tile.
        lane, warp = thread % WARP, thread // WARP
        y = (warp % warps_down * WARP_ROWS + (lane >> 1 & 7)) * wide
        x = (warp // warps_down * WARP_COLUMNS + (lane & 1 | lane >> 3 & 2)) * wide

        # What this thread fetches: of rows and columns beyond the matrix the last ones, whose products are not stored.
        i_a, k_a = thread // per_row_a, thread % per_row_a * wide
        k_b, j_b = thread // per_row_b, thread % per_row_b * wide
        put_a, put_b = k_a * pitch + i_a, k_b * columns + j_b
        for load in range(loads_a):
            row = min(first_row + i_a + load * rows_apart, m - 1)
            places_a[load] = (matrix * m + row) * k + k_a
        place_b = (matrix * k + k_b) * n + min(first_column + j_b, n - wide)

        # The first slice is the one that may be less than whole; zeros fill it.
        slices = np.int32((k + DEPTH - 1) // DEPTH)
        last = np.int32(slices - 1)
        part = k - (slices - 1) * DEPTH
        for i in range(held_a):
            fetched_a[i] = zero
        for i in range(held_b):
            fetched_b[i] = zero
        for load in range(loads_a):
            if k_a < part:
                load_wide(fetched_a, load * wide, a, places_a[load])
            places_a[load] += part
        for load in range(loads_b):
            if k_b + load * depths_apart < part:
                load_wide(fetched_b, load * wide, b, place_b + np.int64(load * depths_apart) * n)
        place_b += np.int64(part) * n
        put(slices_a, put_a, fetched_a, slices_b, put_b, fetched_b)
        cuda.syncthreads()

        at_a, at_b = y, x
        for turn in range(slices):
            more = turn < last
            if more:
                for load in range(loads_a):
                    load_wide(fetched_a, load * wide, a, places_a[load])
                    places_a[load] += DEPTH
                for load in range(loads_b):
                    load_wide(fetched_b, load * wide, b, place_b + np.int64(load * depths_apart) * n)
                place_b += np.int64(DEPTH) * n
            # DEPTH steps, written out: NVVM leaves a loop of this size rolled.
            add_products(sums, slices_a, at_a, slices_b, at_b)
            add_products(sums, slices_a, at_a + pitch, slices_b, at_b + columns)
            add_products(sums, slices_a, at_a + 2 * pitch, slices_b, at_b + 2 * columns)
            add_products(sums, slices_a, at_a + 3 * pitch, slices_b, at_b + 3 * columns)
            add_products(sums, slices_a, at_a + 4 * pitch, slices_b, at_b + 4 * columns)
            add_products(sums, slices_a, at_a + 5 * pitch, slices_b, at_b + 5 * columns)
            add_products(sums, slices_a, at_a + 6 * pitch, slices_b, at_b + 6 * columns)
            add_products(sums, slices_a, at_a + 7 * pitch, slices_b, at_b + 7 * columns)
            if more:
                put_a, put_b = put_a ^ apart_a, put_b ^ apart_b
                put(slices_a, put_a, fetched_a, slices_b, put_b, fetched_b)
                at_a, at_b = at_a ^ apart_a, at_b ^ apart_b
                cuda.syncthreads()

        for i in range(mine_down):
            out_row = first_row + y + i // wide * step_down + i % wide
            if out_row < m:
                for g in range(groups_across):
                    out_column = first_column + x + g * step_across
                    if out_column < n:
                        store_wide(c, (matrix * m + out_row) * n + out_column, sums, i * mine_across + g * wide)

    return multiply


def compile_kernel(real: Any, tiling: Tiling) -> Any:
    """The kernel, with the registers that two blocks leave to a thread; Numba's simulator knows no registers."""
    bounds = {} if simulated else {"launch_bounds": (tiling.threads, BLOCKS_PER_MULTIPROCESSOR)}
    return cuda.jit(**bounds)(define_kernel(real, tiling))


TILINGS = {"float32": Tiling(128, 128, 8, 8), "float64": Tiling(128, 64, 8, 4)}
REAL = {"float32": float32, "float64": float64}
KERNELS = {dtype: compile_kernel(REAL[dtype], tiling) for dtype, tiling in TILINGS.items()}


def launch(kernel: Any, tiling: Tiling, sizes: Product, a: Any, b: Any, c: Any, stream: Any = 0) -> None:
    """Enqueue C = A·B for flat arrays; n and k are multiples of 16 bytes of elements, the batch is at most 65,535."""
    grid = -(-sizes.n // tiling.columns), -(-sizes.m // tiling.rows), sizes.batch
    kernel[grid, tiling.threads, stream](a, b, c, np.int32(sizes.m), np.int32(sizes.n), np.int32(sizes.k))


def prepare(point: Point) -> Task:
    """Random normal A and B on the device, and C; Skip for a type without a kernel, or too little memory."""
    if point["dtype"] not in KERNELS:
        raise Skip(f"our kernel multiplies {' and '.join(KERNELS)}, not {point['dtype']}")
    return gpu_task(point, bind, unit_kind="plain")


def bind(operands: Operands) -> Callable[[int], None]:
    """What enqueues the product on a stream."""
    kernel, tiling, sizes = KERNELS[operands.dtype], TILINGS[operands.dtype], operands.padded
    a, b, c = (cuda.as_cuda_array(matrix.reshape(-1)) for matrix in (operands.a, operands.b, operands.c))

    def run(stream: int) -> None:
        launch(kernel, tiling, sizes, a, b, c, numba_stream(stream))

    return run


def device_code() -> list[DeviceKernel]:
    """The kernel for each type, as `launch` passes it flat arrays and sizes."""
    return [
        NumbaKernel(
            f"matmul numba {dtype}",
            kernel,
            void(*[REAL[dtype][::1]] * 3, int32, int32, int32),
            tuned=True,
            unit=f"{DEPTH} of k",
        )
        for dtype, kernel in KERNELS.items()
    ]
