"""N-Queens on all cores: every placement of the first rows is a task, scheduled dynamically.

Bound: integer instructions and mispredicted branches; the only memory traffic is a stack of some 300 bytes in L1. All
queens of a row are counted at once from the free bits, so the last row is not searched. Symmetry is not used, so that
every node and every solution can be checked against the published counts. `cpu_tuned.py` uses symmetry and avoids
unpredictable branches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from accelbench.kernels.lib.cpu.threads import compiled, parallel, take_next, thread_count
from accelbench.kernels.treesearch.bits import count_bits
from accelbench.kernels.treesearch.nqueens.counts import search_metrics, verify_search, work_below
from accelbench.kernels.treesearch.nqueens.prefixes import enumerate_prefixes
from accelbench.profiling.benchmark import Output, Task
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification

TASKS_PER_THREAD = 256
"""Minimum tasks per thread: at the end threads wait for at most one of some hundred tasks, well below one percent."""
STACK = 32
"""Maximum rows: the columns of a row are a 32-bit word."""
WORDS = 8
"""Words of a stack entry: five are used; with eight the stacks of two threads share no cache line."""


@compiled
def search(board: Any, columns: Any, left: Any, right: Any, rows: int, stack: Any) -> Any:
    """Return (nodes, solutions) below a placement, in the last `rows` ≥ 1 rows of the board."""
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
        if free != 0:  # rows without remaining squares are not pushed
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
    """Take placements from the shared counter and search below them until none is left."""
    task = take_next(counter)
    while task < len(columns):
        nodes[task], solutions[task] = search(board, columns[task], left[task], right[task], rows, stack)
        task = take_next(counter)


@parallel
def search_on_all(
    board: Any, columns: Any, left: Any, right: Any, rows: int, stacks: Any, counter: Any, nodes: Any, solutions: Any
) -> None:
    """Call `search_tasks` on every thread, each with its own stack."""
    for t in prange(len(stacks)):
        search_tasks(board, columns, left, right, rows, stacks[t], counter, nodes, solutions)


def prepare(point: Point) -> Task:
    """Return the point's task; the placements of the first rows are enumerated here."""
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

    def poison() -> None:
        nodes.fill(-1)
        solutions.fill(-1)

    def verify() -> Verification:
        poison()
        run()
        return verify_search(prefixes, nodes, solutions, point.rng())

    def metrics(seconds: float) -> dict[str, Metric]:
        return search_metrics(prefixes, nodes, solutions, seconds, threads)

    output = Output(read=lambda: (nodes, solutions), poison=poison)
    return Task(run=run, verify=verify, work=work_below(prefixes), metrics=metrics, output=output)
