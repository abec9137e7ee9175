"""Fast N-Queens on the CPU: symmetry of the borders, and no unpredictable branches.

The queens of the four borders are placed first (`borders.py`), and each such placement is a task. A depth-first search
that goes from node to node is bound by a mispredicted branch per node, some 20 cycles, because nothing tells whether
there is a place below a queen. Here the states of one row wait in a buffer, and a block of them is taken at once: each
gets one queen; the children that live are written side by side to the next row's buffer, and the parents that have a
square left back to their own. Both are selections without a branch, of 8 states at a time with AVX2, of 16 or 32 with
AVX-512 (`lanes.py`). All states of a buffer are in the same row below the same border queens, so what those attack,
and the step to the next row, are constants of a pass. The deepest row with waiting states goes next: a buffer never
holds more than two blocks.

Bound: micro-operations of the vector units. 8 nodes take some 40 of them, with 4 permutations and 4 stores: 10 cycles
on four units, 1.3 a node. Measured with 16 queens on one AMD Zen 3 core: 2.4 cycles (0.73 ns) a node, half of the
bound; 27 times as fast as a half-board search, 56 times as fast as a textbook one (`tests/nqueens_baselines.py`).
What bought what: a tree 3.3 times smaller than the half board's, blocks without branches 1.6, 8 lanes 5, of which two
masks to a word 1.3. Two cores are 1.9 times as fast as one; without AVX2 one is still 5 times the half board.
On one AMD Zen 4 core, whose AVX-512 has VBMI2, 32 lanes are 1.7 times as fast as 8 (14 queens: 1.3); 16 lanes, as where
AVX-512 lacks VBMI2, 1.2 times (14 queens: 1.0).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from accelbench.kernels.lib.cpu.threads import compiled, parallel, take_next, thread_count
from accelbench.kernels.treesearch.bits import count_bits
from accelbench.kernels.treesearch.nqueens.borders import STEP_SHIFT, cut
from accelbench.kernels.treesearch.nqueens.counts import search_metrics, verify_search, work_below
from accelbench.kernels.treesearch.nqueens.lanes import (
    COMPRESSES,
    NARROW_LANES,
    choice,
    lanes_of,
    load,
    nonzero,
    splat,
    store_chosen,
)
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification

BLOCK = 4096 if COMPRESSES else 1024
"""States of one pass: enough to make its beginning and end cheap, few enough for the second-level cache. That has 1 MiB
or more where there is AVX-512, and 256 KiB on some CPUs with AVX2."""
SPARE = 288
"""States beyond those of a buffer: the 32 of one store, and 256 more so that a state's words do not lie at the same
place of a page, where a CPU takes a load for one of what was just stored: a tenth slower on Zen 4."""
CAPACITY = 2 * BLOCK + SPARE
"""States that a buffer has room for: less than a block before a pass, a block more after it, and the spare ones."""
BUFFER = 4 * CAPACITY
"""Words of a buffer: all first words of its states, then all second ones, and so on."""
HALF = 16
"""Inner columns at most for 16 bits to hold one of a state's four masks. A state is then two words of 32 bits, which
save a quarter over four; or four words of 16 bits, without packing, where the CPU has lanes for these."""
LOOK_AHEAD = 2
"""Rows that must have a free square below a queen, or nothing is searched there."""
PAD = 32
"""Counters of waiting states for each thread, at most 19 are used: 256 bytes, so that threads share no cache line."""
TASKS_PER_THREAD = 64
"""The fewest tasks per thread, so that the last one to finish is late by little; the largest go first."""


@compiled
def read_states(words: Any, place: int, apart: Any) -> Any:
    """Return columns, left, right and free of a vector of states; each has a word of its own unless `apart` is None."""
    first, second = load(words, place), load(words, place + CAPACITY)
    if apart is not None:
        return first, load(words, place + 2 * CAPACITY), load(words, place + 3 * CAPACITY), second
    low, high = splat(words, np.uint32((1 << HALF) - 1)), splat(words, np.uint32(HALF))
    return first & low, first >> high, second >> high, second & low


@compiled
def keep_states(
    words: Any, place: int, columns: Any, left: Any, right: Any, free: Any, chosen: Any, apart: Any
) -> None:
    """Write the states that are chosen side by side."""
    if apart is not None:
        store_chosen(words, place, columns, chosen)
        store_chosen(words, place + CAPACITY, free, chosen)
        store_chosen(words, place + 2 * CAPACITY, left, chosen)
        store_chosen(words, place + 3 * CAPACITY, right, chosen)
    else:
        high = splat(words, np.uint32(HALF))
        store_chosen(words, place, columns | left << high, chosen)
        store_chosen(words, place + CAPACITY, free | right << high, chosen)


@compiled
def place_queens(words: Any, waiting: Any, row: int, board: Any, rows: Any, length: int, apart: Any) -> Any:
    """Give a queen to each of the last `BLOCK` states that wait in a row before the last; return how many that were."""
    last = min(row + 2, length - 1)
    # In the last row the step is 0, and looking ahead from it sees it again.
    step = splat(words, rows[row] >> np.uint32(STEP_SHIFT))
    step_ahead = splat(words, rows[row + 1] >> np.uint32(STEP_SHIFT))
    open_next, open_ahead = splat(words, board & ~rows[row + 1]), splat(words, board & ~rows[last])
    lanes = lanes_of(words)
    one = splat(words, np.uint32(1))
    here, below = row * BUFFER, (row + 1) * BUFFER
    end, children = waiting[row], waiting[row + 1]
    begin = max(end - BLOCK, 0)
    kept = begin
    for state in range(begin, end, lanes):
        valid = (1 << min(end - state, lanes)) - 1
        columns, left, right, free = read_states(words, here + state, apart)
        rest = free & (free - one)
        queen = free ^ rest
        next_columns = columns | queen
        next_left = (left | queen) << step
        next_right = (right | queen) >> step
        next_free = open_next & ~(next_columns | next_left | next_right)
        ahead = open_ahead & ~(next_columns | next_left << step_ahead | next_right >> step_ahead)
        alive = nonzero(next_free) & nonzero(ahead) & valid
        keep_states(words, below + children, next_columns, next_left, next_right, next_free, choice(alive), apart)
        children += count_bits(np.uint32(alive))
        again = nonzero(rest) & valid
        keep_states(words, here + kept, columns, left, right, rest, choice(again), apart)
        kept += count_bits(np.uint32(again))
    waiting[row], waiting[row + 1] = kept, children
    return end - begin


@compiled
def search(
    words: Any, waiting: Any, board: Any, rows: Any, length: int, apart: Any, depth: int, columns: Any, left: Any,
    right: Any,
) -> Any:  # fmt: skip
    """Return (nodes, solutions) below one living placement of queens in the first `depth` of `length` rows."""
    free = splat(words, board & ~(columns | left | right | rows[depth]))
    state = splat(words, columns), splat(words, left), splat(words, right), free
    keep_states(words, depth * BUFFER, *state, choice(1), apart)
    waiting[:] = 0
    waiting[depth] = 1
    nodes, solutions = 0, 0
    row = depth
    while row >= depth:
        if waiting[row] == 0:
            row -= 1
        elif row == length - 1:
            # One column is left, and it is free, or the state would not wait here.
            nodes += waiting[row]
            solutions += waiting[row]
            waiting[row] = 0
        else:
            while waiting[row] > 0 and waiting[row + 1] < BLOCK:
                nodes += place_queens(words, waiting, row, board, rows, length, apart)
            row += 1
    return nodes, solutions


@compiled
def search_tasks(
    words: Any, waiting: Any, board: Any, rows: Any, length: Any, apart: Any, depth: int, border: Any, columns: Any,
    left: Any, right: Any, counter: Any, nodes: Any, solutions: Any,
) -> None:  # fmt: skip
    """Search below one task after the other until none is left."""
    task = take_next(counter)
    while task < len(columns):
        b = border[task]
        nodes[task], solutions[task] = search(
            words, waiting, board, rows[b], length[b], apart, depth, columns[task], left[task], right[task]
        )
        task = take_next(counter)


@parallel
def search_on_all(
    words: Any, waiting: Any, board: Any, rows: Any, length: Any, apart: Any, depth: int, border: Any, columns: Any,
    left: Any, right: Any, counter: Any, nodes: Any, solutions: Any,
) -> None:  # fmt: skip
    """Do `search_tasks` on every thread: row t of `words` and `waiting` is thread t's."""
    for t in prange(len(words)):
        search_tasks(
            words[t], waiting[t], board, rows, length, apart, depth, border, columns, left, right, counter, nodes,
            solutions,
        )  # fmt: skip


def prepare(point: Point) -> Task:
    """Place the borders, and cut further where there are too few tasks for the threads."""
    queens = int(point["queens"])
    threads = thread_count() if point["cores"] == "all" else 1
    tasks = cut(queens, TASKS_PER_THREAD * threads, LOOK_AHEAD)
    borders = tasks.borders
    narrow = NARROW_LANES > 0 and queens - 2 <= HALF
    apart = narrow or queens - 2 > HALF or None
    words = np.zeros((threads, borders.rows.shape[1] * BUFFER), np.uint16 if narrow else np.uint32)
    waiting = np.zeros((threads, PAD), np.int64)
    counter = np.zeros(1, np.int64)
    nodes, solutions = (np.zeros(len(tasks), np.int64) for _ in range(2))
    arguments = (
        borders.board, borders.rows, borders.length, apart, tasks.depth, tasks.border, tasks.columns, tasks.left,
        tasks.right, counter, nodes, solutions,
    )  # fmt: skip

    def run() -> None:
        counter[0] = 0
        if threads == 1:
            search_tasks(words[0], waiting[0], *arguments)
        else:
            search_on_all(words, waiting, *arguments)

    def verify() -> Verification:
        nodes.fill(-1)
        solutions.fill(-1)
        run()
        return verify_search(tasks, nodes, solutions, point.rng())

    def metrics(seconds: float) -> dict[str, Metric]:
        return search_metrics(tasks, nodes, solutions, seconds, threads)

    return Task(run=run, verify=verify, work=work_below(tasks), metrics=metrics)
