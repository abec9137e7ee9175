"""N-Queens on all cores: every placement of the first rows is a task, and idle threads take the next one.

Bound: integer instructions and mispredicted branches; no memory traffic beyond a stack of some 300 bytes in L1. All
queens of a row are counted at once from the bits that are free, so the last row is never entered. No symmetry is used,
so that every node and every solution can be checked against the published counts. `cpu_tuned.py` shows what using it,
and leaving the branches out, is worth.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from accelbench.kernels.lib.cpu.threads import compiled, parallel, take_next, thread_count
from accelbench.kernels.treesearch.bits import count_bits
from accelbench.kernels.treesearch.nqueens.counts import search_metrics, verify_search, work_below
from accelbench.kernels.treesearch.nqueens.prefixes import enumerate_prefixes
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification

TASKS_PER_THREAD = 256
"""The last thread to finish is then late by one task of some hundreds: well below a percent."""
STACK = 32
"""The most rows: a row of columns is a 32-bit word."""
WORDS = 8
"""The words of a stack entry: five are used, and with eight no two threads' stacks share a cache line."""


@compiled
def search(board: Any, columns: Any, left: Any, right: Any, rows: int, stack: Any) -> Any:
    """Return (nodes, solutions) below one placement, in the last `rows` ≥ 1 rows of the board."""
    one = np.uint32(1)
    free = np.uint32(board & ~(columns | left | right))
    nodes = count_bits(free)
    if rows == 1:
        return nodes, nodes
    solutions = 0
    height = 0
    while True:
        if free == 0:
            if height == 0:
                return nodes, solutions
            height -= 1
            free, columns = stack[height, 0], stack[height, 1]
            left, right = stack[height, 2], stack[height, 3]
            rows = stack[height, 4]
            continue
        queen = np.uint32(free & (~free + one))
        free = np.uint32(free ^ queen)
        below_columns = np.uint32(columns | queen)
        below_left = np.uint32((left | queen) << one)
        below_right = np.uint32((right | queen) >> one)
        below = np.uint32(board & ~(below_columns | below_left | below_right))
        if below == 0:
            continue
        placed = count_bits(below)
        nodes += placed
        if rows == 2:
            solutions += placed
            continue
        if free != 0:  # a row with nothing left to try need not be returned to
            stack[height, 0], stack[height, 1] = free, columns
            stack[height, 2], stack[height, 3] = left, right
            stack[height, 4] = np.uint32(rows)
            height += 1
        free, columns, left, right = below, below_columns, below_left, below_right
        rows -= 1


@compiled
def search_tasks(
    board: Any, columns: Any, left: Any, right: Any, rows: int, stack: Any, counter: Any, nodes: Any, solutions: Any
) -> None:
    """Search below one placement after the other until none is left."""
    task = take_next(counter)
    while task < len(columns):
        nodes[task], solutions[task] = search(board, columns[task], left[task], right[task], rows, stack)
        task = take_next(counter)


@parallel
def search_on_all(
    board: Any, columns: Any, left: Any, right: Any, rows: int, stacks: Any, counter: Any, nodes: Any, solutions: Any
) -> None:
    """Do `search_tasks` on every thread, each with a stack of its own."""
    for t in prange(len(stacks)):
        search_tasks(board, columns, left, right, rows, stacks[t], counter, nodes, solutions)


def prepare(point: Point) -> Task:
    """Enumerate the tasks."""
    queens = int(point["queens"])
    threads = thread_count() if point["cores"] == "all" else 1
    prefixes = enumerate_prefixes(queens, TASKS_PER_THREAD * threads)
    board, rows = np.uint32((1 << queens) - 1), queens - prefixes.depth
    stacks = np.zeros((threads, STACK, WORDS), np.uint32)
    counter = np.zeros(1, np.int64)
    nodes, solutions = (np.zeros(len(prefixes), np.int64) for _ in range(2))
    state = board, prefixes.columns, prefixes.left, prefixes.right, rows

    def run() -> None:
        counter[0] = 0
        if threads == 1:
            search_tasks(*state, stacks[0], counter, nodes, solutions)
        else:
            search_on_all(*state, stacks, counter, nodes, solutions)

    def verify() -> Verification:
        nodes.fill(-1)
        solutions.fill(-1)
        run()
        return verify_search(prefixes, nodes, solutions, point.rng())

    def metrics(seconds: float) -> dict[str, Metric]:
        return search_metrics(prefixes, nodes, solutions, seconds, threads)

    return Task(run=run, verify=verify, work=work_below(prefixes), metrics=metrics)
