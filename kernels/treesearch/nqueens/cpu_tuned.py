"""Fast N-Queens on the CPU by symmetry of the borders and vectors of states, without unpredictable branches.

The queens of the four borders are placed first (`borders.py`), and each such placement is a task. A conventional
depth-first search is bound by one mispredicted branch per node, some 20 cycles, because it is unpredictable whether a
queen has a valid successor. Here the pending states of each row are kept in a buffer, and a block of them is processed
at once: every state gets one queen, the live children are compacted into the buffer of the next row, and the parents
with remaining squares are compacted into their own buffer. Both are branch-free selections of 8 states at a time with
AVX2 and of 16 or 32 with AVX-512 (`lanes.py`). All states of a buffer are in the same row below the same border queens,
so the squares attacked by border queens and the step to the next row are constants of a pass. The deepest row with
pending states is processed next, so a buffer never holds more than two blocks.

Bound: micro-operations of the vector units. 8 nodes take some 40 of them, with 4 permutations and 4 stores: 10 cycles
on four units, 1.3 per node. Measured with 16 queens on one AMD Zen 3 core: 2.4 cycles (0.73 ns) per node, half of the
bound; 27× as fast as a half-board search, 56× as fast as a textbook search (`tests/nqueens_baselines.py`). Compared
with the half-board search, the tree is 3.3× smaller; branch-free blocks give 1.6×, 8 lanes 5×, including 1.3× from two
masks per word. Two cores are 1.9× as fast as one. Without AVX2 one core is 5× as fast as the half-board search. On one
AMD Zen 4 core, whose AVX-512 has VBMI2, 32 lanes are 1.7× as fast as 8 (14 queens: 1.3×), and 16 lanes, which AVX-512
without VBMI2 uses, 1.2× (14 queens: 1.0×).
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
"""States of one pass: enough to amortise its prologue and epilogue, few enough for L2, which has 1 MiB or more on CPUs
with AVX-512, and 256 KiB on some CPUs with AVX2."""
SPARE = 288
"""Additional states of a buffer: 32 for the width of a store, and 256 that shift the words of a state to different page
offsets. Equal offsets would alias loads with recent stores (4 KiB aliasing), which takes a tenth more time on Zen 4."""
CAPACITY = 2 * BLOCK + SPARE
"""Capacity of a buffer in states: less than a block before a pass, one more block after it, and SPARE."""
BUFFER = 4 * CAPACITY
"""Words of a buffer: the first words of all states, then the second words of all states, and so on."""
HALF = 16
"""Maximum inner columns for which a mask of a state fits in 16 bits. A state is then two 32-bit words instead of four,
which saves a quarter of the time, or four 16-bit words if the CPU has lanes for them."""
LOOK_AHEAD = 2
"""Rows below a queen that must each have a free square for the search to continue."""
PAD = 32
"""Counters of pending states per thread, of which at most 19 are used: 256 bytes, so that threads share no cache
line."""
TASKS_PER_THREAD = 64
"""Minimum tasks per thread, so that threads finish at about the same time; the largest tasks are scheduled first."""


@compiled
def read_states(words: Any, place: int, apart: Any) -> Any:
    """Return columns, left, right and free of a vector of states; with `apart` None, two masks share a word."""
    first, second = load(words, place), load(words, place + CAPACITY)
    if apart is not None:
        return first, load(words, place + 2 * CAPACITY), load(words, place + 3 * CAPACITY), second
    low, high = splat(words, np.uint32((1 << HALF) - 1)), splat(words, np.uint32(HALF))
    return first & low, first >> high, second >> high, second & low


@compiled
def keep_states(
    words: Any, place: int, columns: Any, left: Any, right: Any, free: Any, chosen: Any, apart: Any
) -> None:
    """Write the chosen states compacted."""
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
    """Place a queen for each of the last `BLOCK` pending states of a row before the last; return their number."""
    last = min(row + 2, length - 1)
    # In the last row the step is 0, so looking ahead from it checks the same row again.
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
    """Return (nodes, solutions) below a live placement of queens in the first `depth` of `length` rows."""
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
            # One column is left, and it is free, because other states are not kept.
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
    """Take tasks from the shared counter and search below them until none is left."""
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
    """Call `search_tasks` on every thread, with row t of `words` and `waiting` for thread t."""
    for t in prange(len(words)):
        search_tasks(
            words[t], waiting[t], board, rows, length, apart, depth, border, columns, left, right, counter, nodes,
            solutions,
        )  # fmt: skip


def prepare(point: Point) -> Task:
    """Return the point's task; tasks are border placements, or deeper placements if those are too few."""
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
