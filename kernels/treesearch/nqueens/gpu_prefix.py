"""N-Queens on a GPU: the CPU enumerates placements of the first rows, one GPU thread searches below each of them.

Bound: integer instructions; a node takes some 30 of them, and memory traffic is 12 bytes in and 8 out per prefix.
What is lost against the bound is lanes that idle because the subtrees of a warp's 32 prefixes differ in size. No
symmetry is used, so that every node and every solution can be checked against the published counts.

A thread keeps its stack of rows in shared memory, one word of each thread in turn, so that the 32 lanes of a warp
always hit 32 different banks whatever their depth. The kernel is built for the rows below its prefixes: a block takes
9 KiB for the 10 rows of 16 queens, so that 22 of them fit a multiprocessor of compute capability 9.0 at once, and 13
for the 17 rows of 22 queens.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from accelbench.kernels.lib.gpu.device_code import DeviceKernel, NumbaKernel
from accelbench.kernels.lib.gpu.numba_cuda import cuda, numba_stream, uint32, void
from accelbench.kernels.treesearch.nqueens.device_counts import DeviceCounts, gpu_task
from accelbench.kernels.treesearch.nqueens.prefixes import enumerate_prefixes
from accelbench.kernels.treesearch.nqueens.residency import ALL_SHARED
from accelbench.profiling.benchmark import Task
from accelbench.profiling.devices.cupy_device import require_device_memory
from accelbench.profiling.records.point import Point

VENDORS = ("nvidia",)

THREADS = 64
MIN_PREFIXES = 4 * 132 * 22 * THREADS
"""Four for each of the 185,856 threads that 132 multiprocessors hold at 16 queens: small subtrees follow on large."""


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
        # Unsigned, or every index would be checked for Python's counting from the end.
        row = uint32(0)
        c = columns[prefix]
        l = left[prefix]  # noqa: E741 - column, left and right are c, l and r wherever this algorithm is written
        r = right[prefix]
        # Numba widens every operation to 64 bits; cut back at once, the compiler keeps 32-bit registers.
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
    """Enumerate the prefixes and put them on the device."""
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
    """Return the search as `run` launches it for 16 queens, whose prefixes leave 10 rows."""
    words = uint32[::1]
    signature = void(words, words, words, uint32, words, words)
    return [NumbaKernel("nqueens prefix", define_search(10), signature, unit="node")]
