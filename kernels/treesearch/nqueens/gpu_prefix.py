"""N-Queens on a GPU: the CPU enumerates placements of the first rows (prefixes), a GPU thread searches below each one.

Bound: integer instructions, some 30 per node; memory traffic is 12 bytes read and 8 bytes written per prefix. Lanes are
idle when the subtrees of the 32 prefixes of a warp differ in size. Symmetry is not used, so that every node and every
solution can be checked against the published counts.

A thread keeps its stack of rows in shared memory, interleaved by threads, so that the 32 lanes of a warp access 32
different banks at any depth. The kernel is compiled for the number of rows below its prefixes: a block takes 9 KiB for
the 10 rows of 16 queens, so that 22 blocks are resident on a multiprocessor of compute capability 9.0, and 13 blocks
for the 17 rows of 22 queens. On an H100 SXM 235 G nodes/s at 18 queens.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from accelbench.kernels.lib.gpu.device_code import DeviceKernel, NumbaKernel
from accelbench.kernels.lib.gpu.numba_cuda import cuda, numba_stream, uint32, void
from accelbench.kernels.lib.gpu.residency import ALL_SHARED
from accelbench.kernels.treesearch.nqueens.device_counts import DeviceCounts, gpu_task
from accelbench.kernels.treesearch.nqueens.prefixes import enumerate_prefixes
from accelbench.profiling.benchmark import Task
from accelbench.profiling.devices.cupy_device import require_device_memory
from accelbench.profiling.records.point import Point

VENDORS = ("nvidia",)

THREADS = 64
MIN_PREFIXES = 4 * 132 * 22 * THREADS
"""Minimum prefixes: four for each of the 185,856 resident threads of 132 multiprocessors at 16 queens, for load
balance."""


@cache
def define_search(rows: int) -> Any:
    """Return the kernel for prefixes that leave the last `rows` ≥ 1 rows of the board."""
    frames = max(rows - 1, 1)
    last = uint32(rows - 1)

    @cuda.jit(**ALL_SHARED)
    def search(columns: Any, left: Any, right: Any, board: Any, nodes: Any, solutions: Any) -> None:
        """Count the queens placed and the solutions found below each prefix."""
        stack_free = cuda.shared.array((frames, THREADS), uint32)
        stack_columns = cuda.shared.array((frames, THREADS), uint32)
        stack_left = cuda.shared.array((frames, THREADS), uint32)
        stack_right = cuda.shared.array((frames, THREADS), uint32)
        prefix = cuda.grid(1)
        thread = cuda.threadIdx.x
        if prefix >= columns.shape[0]:
            return
        one = uint32(1)
        placed = uint32(0)
        found = uint32(0)
        # Unsigned, because signed indices would be checked for Python's wraparound.
        row = uint32(0)
        c = columns[prefix]
        l = left[prefix]  # noqa: E741 - column, left and right are c, l and r wherever this algorithm is written
        r = right[prefix]
        # Numba widens operations to 64 bits; with immediate truncation the compiler keeps 32-bit registers.
        free = uint32(board & ~(c | l | r))
        while True:
            if free == 0:
                if row == 0:
                    break
                row = uint32(row - one)
                free = stack_free[row, thread]
                c = stack_columns[row, thread]
                l = stack_left[row, thread]  # noqa: E741
                r = stack_right[row, thread]
            else:
                queen = uint32(free & (~free + one))
                free = uint32(free ^ queen)
                placed = uint32(placed + one)
                if row == last:
                    found = uint32(found + one)
                else:
                    stack_free[row, thread] = free
                    stack_columns[row, thread] = c
                    stack_left[row, thread] = l
                    stack_right[row, thread] = r
                    row = uint32(row + one)
                    c = uint32(c | queen)
                    l = uint32((l | queen) << one)  # noqa: E741
                    r = uint32((r | queen) >> one)
                    free = uint32(board & ~(c | l | r))
        nodes[prefix] = placed
        solutions[prefix] = found

    return search


def prepare(point: Point) -> Task:
    """Return the point's task; the prefixes are enumerated here and copied to the device."""
    queens = int(point["queens"])
    prefixes = enumerate_prefixes(queens, MIN_PREFIXES)
    require_device_memory(20 * len(prefixes))
    counts = DeviceCounts(prefixes)
    inputs = [cuda.to_device(x) for x in (prefixes.columns, prefixes.left, prefixes.right)]
    grid = -(-len(prefixes) // THREADS)
    search, board = define_search(queens - prefixes.depth), np.uint32((1 << queens) - 1)

    def run(stream: int = 0) -> None:
        search[grid, THREADS, numba_stream(stream)](*inputs, board, counts.nodes, counts.solutions)

    return gpu_task(point, counts, run)


def device_code() -> list[DeviceKernel]:
    """Return the search as `run` launches it for 16 queens, with 10 rows below the prefixes."""
    words = uint32[::1]
    signature = void(words, words, words, uint32, words, words)
    return [NumbaKernel("nqueens prefix", define_search(10), signature, unit="node")]
