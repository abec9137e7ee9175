"""N-Queens on all cores: every placement of the first rows is a task, and a thread that is done takes the next one.

Bound: integer instructions and mispredicted branches; no memory traffic beyond a stack of some 300 bytes in L1. All
queens of a row are counted at once from the bits that are free, so the last row is never entered. No symmetry is used,
so that every node and every solution can be checked against the published counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import prange, types
from numba.core import cgutils
from numba.extending import intrinsic

from kernels.nqueens.counts import require_published, verify_counts
from kernels.nqueens.prefixes import enumerate_prefixes
from kernels.nqueens.published import NODES, SOLUTIONS
from kernels.threads import compiled, parallel, take_next, thread_count
from profiling.benchmark import Metric, Point, Task, Verification, Work

TASKS_PER_THREAD = 256
"""The last thread to finish is then late by one task of some hundreds: well below a percent."""
STACK = 32
"""Rows at most: a row of columns is a 32-bit word."""
PAD = 16
"""Words between the results of two threads: 128 bytes, so that they share no cache line and no pair of lines."""


@intrinsic
def count_bits(typing: Any, word: Any) -> Any:
    """How many bits of a uint32 are set: one instruction on every CPU since 2008."""
    if word != types.uint32:
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), [ir.IntType(32)])
        count = cgutils.get_or_insert_function(builder.module, kind, "llvm.ctpop.i32")
        return builder.zext(builder.call(count, arguments), ir.IntType(64))

    return types.int64(word), codegen


@compiled
def search(board: Any, columns: Any, left: Any, right: Any, rows: int, stack: Any) -> Any:
    """(nodes, solutions) below one placement, in the last `rows` ≥ 1 rows of the board."""
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


@parallel
def search_all(
    board: Any, columns: Any, left: Any, right: Any, rows: int, stacks: Any, counter: Any, results: Any
) -> None:
    """Search below all placements; thread t adds up its nodes and solutions in results[t, :2]."""
    counter[0] = 0
    for thread in prange(len(results)):
        nodes = 0
        solutions = 0
        task = take_next(counter)
        while task < len(columns):
            found = search(board, columns[task], left[task], right[task], rows, stacks[thread])
            nodes += found[0]
            solutions += found[1]
            task = take_next(counter)
        results[thread, 0] = nodes
        results[thread, 1] = solutions


def prepare(point: Point) -> Task:
    """Enumerate the tasks; Skip for a board whose node count is not published."""
    queens = int(point["queens"])
    require_published(queens)
    threads = thread_count()
    prefixes = enumerate_prefixes(queens, TASKS_PER_THREAD * threads)
    board, rows = np.uint32((1 << queens) - 1), queens - prefixes.depth
    stacks = np.zeros((threads, STACK, 8), np.uint32)
    counter = np.zeros(1, np.int64)
    results = np.zeros((threads, PAD), np.int64)

    def run() -> None:
        search_all(board, prefixes.columns, prefixes.left, prefixes.right, rows, stacks, counter, results)

    def verify() -> Verification:
        results.fill(-1)
        run()
        nodes, solutions = results[:, :2].sum(axis=0)
        return verify_counts(queens, prefixes.nodes + int(nodes), int(solutions))

    def metrics(seconds: float) -> dict[str, Metric]:
        return {
            "solutions": Metric(SOLUTIONS[queens]),
            "nodes": Metric(NODES[queens]),
            "solutions per second": Metric(SOLUTIONS[queens] / seconds, "1/s"),
            "tasks": Metric(len(prefixes)),
            "threads": Metric(threads),
        }

    # The levels above the tasks were counted beforehand, and are no work of one execution.
    return Task(run=run, verify=verify, work=Work(items=NODES[queens] - prefixes.nodes, item="nodes"), metrics=metrics)
