"""Fast N-Queens on a GPU: every iteration places one queen per lane, and idle lanes take the next task.

The border queens are already placed, one representative of each eight symmetric placements
(`accelbench.kernels.treesearch.nqueens.borders`), and the CPU has also placed queens in the first inner rows. These are
millions of tasks, those with the most free squares first. All blocks of the grid are resident. Every lane searches
below one task at a time.

Bound: shared memory. One iteration of the loop places exactly one queen per lane, takes INSTRUCTIONS_PER_NODE
instructions, and accesses no global memory. An iteration of a warp takes WAVEFRONTS_PER_NODE passes through shared
memory, of 128 bytes each, and a multiprocessor executes one of them per clock for its four schedulers: 35 cycles per
iteration of one warp on each, in which 25 instructions use at most 70 % of the issue slots. At compute capability 9.0,
16 of them are executed by a pipe with 16 lanes per clock: 32 cycles. Enough warps must be resident to hide the latency
of an iteration, mostly two dependent accesses to shared memory. The design:

- The row is pushed to the stack with its remaining squares, if there are any, and the search always descends. If the
  next row has no free square, the top frame is popped, often the one just pushed. This avoids a choice between the row
  and the next one, which took four selects and two comparisons.
- A row is stored as its *occupied* squares. `columns` has ones outside of the board as well: it is all ones when all
  queens are placed, its population count is the number of placed queens, and `taken & (taken + 1)` needs no mask.
- The squares attacked by border queens in a row and the step into it are one word of a table per lane in shared memory.
  The step is in the low five bits, below the board, which are the only ones that the hardware shift uses. The top bit
  marks that no row is left, and is added to the solutions.
- A frame is 16 bytes of shared memory, one access. Frames and rows are arranged without bank conflicts between the 32
  lanes. This memory limits the resident warps, so the kernel is compiled for the depth of its tasks.
- Iterations are counted instead of nodes, and the loop is unrolled twice: 25 instructions per iteration instead of 30.
- The only branch is taken at the end of a task. It costs a warp 55 instructions and three accesses to global memory,
  where a task is stored as its first frame. At 16 queens, with 251 nodes per task on average, some lane of a warp
  takes the branch every eight iterations, which adds seven instructions to each; from 18 queens on every hundred or
  more iterations.

On an H100 SXM: 896 G nodes/s at 18 queens, 95 % of the bound, and 935 G nodes/s at 20 (99 %). At 16 queens, 298 G
nodes/s: the search takes 0.7 ms, in which not all lanes have a task.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from accelbench.kernels.lib.gpu.device_code import DeviceKernel, NumbaKernel
from accelbench.kernels.lib.gpu.numba_cuda import cuda, numba_stream, uint32, void
from accelbench.kernels.lib.gpu.residency import ALL_SHARED, registers_per_thread, this_device
from accelbench.kernels.lib.gpu.wide_access import load_wide
from accelbench.kernels.treesearch.nqueens.borders import STEP_SHIFT, Tasks, cut
from accelbench.kernels.treesearch.nqueens.device_counts import DeviceCounts, gpu_task
from accelbench.kernels.treesearch.nqueens.shared_words import (
    FRAME_BYTES,
    FRAME_WORDS,
    WORD_BYTES,
    load_frame,
    load_word,
    place_of,
    shift_left,
    shift_right,
    store_frame,
)
from accelbench.profiling.benchmark import Task
from accelbench.profiling.devices.cupy_device import require_device_memory
from accelbench.profiling.machine.nvidia.cuda import attribute, compute_capability
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric

VENDORS = ("nvidia",)

THREADS = 64
"""Threads of a block: few, so that little of the shared memory of a multiprocessor remains unused."""
LOOK_AHEAD = 1
"""Rows to look ahead. Two would save a sixth of the nodes, but take about eight more instructions per node."""
MIN_TASKS, MANY_TASKS, MANY_FROM = 500_000, 2_000_000, 19
"""Minimum number of tasks, and the larger minimum from 19 queens on, where tasks are large and taking one is cheap.

With dynamic scheduling, lanes are idle at the end for 9 % of the time with 12 tasks per lane, 7 % with 25 and 1 % with
88 (tasks of 16 queens, simulated). On 132 multiprocessors of compute capability 9.0, 126,720 lanes are resident at 18
queens and 109,824 at 20.
"""
TURNS = 2
"""Unrolled iterations: the second one needs no jump, and both use different registers without moves."""
INSTRUCTIONS_PER_NODE = {
    (7, 5): 26, (8, 0): 25, (8, 6): 25, (8, 9): 25, (9, 0): 25, (10, 0): 27, (10, 3): 27, (12, 0): 27,
}  # fmt: skip
"""Instructions of an iteration without the branch to the next task, by compute capability (`make kernels-report`)."""
WAVEFRONTS_PER_NODE = 8.85
"""Passes through shared memory of an iteration, counted by Nsight Compute on an H100 at 18 queens. At most 9: four for
the frame that is read, four for the one that is written, and one for the row, without bank conflicts (`make
kernels-report`); lanes without a frame to read save some. A multiprocessor executes one per clock."""
WARP = 32

BITS = 32
BOARD_SHIFT = 5
"""Position of the board's columns in a word, above the five bits that a shift uses."""
ATTACKED = np.uint32((1 << STEP_SHIFT) - 1)
SOLVED = 31
"""Bit of a row's word that marks that no row is left."""
FULL = uint32(0xFFFFFFFF)
SIGNATURE = void(uint32, *[uint32[::1]] * 6)
"""Signature: number of tasks, their frames, their borders, rows of the borders, counter, nodes, solutions."""


@cuda.jit
def reset(counter: Any) -> None:
    counter[0] = 0


def most_frames(to_place: int) -> int:
    """Return the maximum frames of a lane: the last row has at most one square and is stored only at the start."""
    return max(to_place - 1, 1)


def shared_bytes(to_place: int) -> int:
    """Return the shared memory of a block in bytes, for up to `to_place` queens below a task."""
    return THREADS * (FRAME_BYTES * most_frames(to_place) + WORD_BYTES * to_place)


@cache
def define_search(to_place: int) -> Any:
    """Return the kernel for tasks with up to `to_place` ≥ 1 queens to place."""
    frame, row = uint32(THREADS * FRAME_BYTES), uint32(THREADS * WORD_BYTES)
    stack_words, rows_words = THREADS * FRAME_WORDS * most_frames(to_place), THREADS * to_place
    pitch = pitch_of(to_place)
    ones = uint32(
        BITS - to_place + 1
    )  # in `columns`, including bits outside of the board, at the first row of the table

    @cuda.jit(**ALL_SHARED)
    def search(
        tasks: Any, frame_of: Any, border_of: Any, rows_of: Any, counter: Any, nodes_of: Any, solutions_of: Any
    ) -> None:  # fmt: skip
        """Count the queens placed and the solutions found below every task; `counter` must be 0."""
        stack = cuda.shared.array(stack_words, uint32, alignment=FRAME_BYTES)
        rows = cuda.shared.array(rows_words, uint32)
        zero, one = uint32(0), uint32(1)
        thread = uint32(cuda.threadIdx.x)
        bottom = place_of(stack, uint32(thread * uint32(FRAME_WORDS)))
        empty = uint32(bottom - frame)
        first = uint32(place_of(rows, thread) - uint32(ones * row))
        loaded = cuda.local.array(pitch, uint32)
        taken = FULL
        columns = left = right = solutions = turns = start = zero
        top = empty
        task = tasks
        while True:
            for turn in range(TURNS):
                if taken == FULL and top == empty:
                    if task < tasks:
                        nodes_of[task] = uint32(uint32(turns + uint32(turn)) - start)
                        solutions_of[task] = solutions
                    task = uint32(cuda.atomic.add(counter, 0, one))
                    if task >= tasks:
                        return
                    entry = uint32(border_of[task] * uint32(pitch))
                    load_wide(loaded, 0, frame_of, uint32(task * uint32(FRAME_WORDS)))
                    store_frame(stack, bottom, 0, loaded[0], loaded[1], loaded[2], loaded[3])
                    for slot in range(0, pitch, FRAME_WORDS):
                        load_wide(loaded, slot, rows_of, uint32(entry + uint32(slot)))
                    for slot in range(to_place):
                        rows[uint32(uint32(slot * THREADS) + thread)] = loaded[slot]
                    top = bottom
                    solutions = zero
                    start = uint32(turns + uint32(turn))
                if taken == FULL:
                    taken, columns, left, right = load_frame(stack, top)
                    top = uint32(top - frame)
                more = uint32(taken + one)
                rest = uint32(taken | more)
                queen = uint32(~taken & more)
                next_columns = uint32(columns | queen)
                word = load_word(rows, uint32(uint32(uint32(cuda.popc(next_columns)) * row) + first))
                next_left = shift_left(uint32(left | queen), word)
                next_right = shift_right(uint32(right | queen), word)
                solutions = uint32(solutions + uint32(word >> uint32(SOLVED)))
                if rest != FULL:
                    store_frame(stack, top, frame, rest, columns, left, right)
                    top = uint32(top + frame)
                columns = next_columns
                left = next_left
                right = next_right
                taken = uint32(next_columns | next_left | next_right | word)
            turns = uint32(turns + uint32(TURNS))

    return search


def most_to_place(tasks: Tasks) -> int:
    """Return the maximum number of queens to place below a task; 1 if there is no task."""
    return max(int(tasks.borders.length.max(initial=0)) - tasks.depth, 1)


def frames_of(tasks: Tasks) -> Any:
    """Return the first frame of each task as uint32 (tasks, 4): occupied squares, columns, left and right."""
    borders, shift = tasks.borders, np.uint32(BOARD_SHIFT)
    columns = ~((borders.board & ~tasks.columns) << shift)
    left, right = tasks.left << shift, tasks.right << shift
    attacked = (borders.rows[tasks.border, tasks.depth] & ATTACKED) << shift
    return np.stack([columns | left | right | attacked, columns, left, right], axis=1)


def pitch_of(to_place: int) -> int:
    """Return the words between the tables of two borders, a multiple of a frame, which is read in one access."""
    return -(-to_place // FRAME_WORDS) * FRAME_WORDS


def rows_of(tasks: Tasks) -> Any:
    """Return the rows as uint32 (borders, pitch): columns attacked by border queens in a row, and the step into it.

    The first row is the one with the most queens to place below a task; it has no step. The row after the last one has
    the mark that no row is left.
    """
    borders, to_place = tasks.borders, most_to_place(tasks)
    length = borders.length.astype(np.int64)
    every = np.arange(len(borders))
    table = np.zeros((len(borders), pitch_of(to_place)), np.uint32)
    for slot in range(to_place - 1):
        row = length - (to_place - 1 - slot)
        attacked = (borders.rows[every, np.maximum(row, 0)] & ATTACKED) << np.uint32(BOARD_SHIFT)
        step = borders.rows[every, np.maximum(row - 1, 0)] >> np.uint32(STEP_SHIFT)
        table[:, slot] = np.where(row >= 0, attacked, 0) | np.where(row >= 1, step, 0)
    table[:, to_place - 1] = np.uint32(1 << SOLVED)
    return table


def prepare(point: Point) -> Task:
    """Return the point's task; queens in the borders and first rows are placed here, and the tasks copied."""
    queens = int(point["queens"])
    tasks = cut(queens, MIN_TASKS if queens < MANY_FROM else MANY_TASKS, LOOK_AHEAD)
    to_place, table = most_to_place(tasks), rows_of(tasks)
    require_device_memory(28 * len(tasks) + table.nbytes)
    counts = DeviceCounts(tasks)
    arrays = frames_of(tasks).reshape(-1), tasks.border, table.reshape(-1)
    inputs = [cuda.to_device(x if len(x) else np.zeros(1, np.uint32)) for x in arrays]
    counter = cuda.device_array(1, np.uint32)
    search, multiprocessors = define_search(to_place), attribute("MultiProcessorCount")
    resident = this_device().resident(THREADS, registers_per_thread(search, SIGNATURE), shared_bytes(to_place))
    grid = max(1, min(-(-len(tasks) // THREADS), resident * multiprocessors))

    def run(stream: int = 0) -> None:
        queue = numba_stream(stream)
        reset[1, 1, queue](counter)
        search[grid, THREADS, queue](np.uint32(len(tasks)), *inputs, counter, counts.nodes, counts.solutions)

    def bound(nodes: int, seconds: float) -> dict[str, Metric]:
        clocks = multiprocessors * attribute("ClockRate") * 1e3 * seconds
        return {"resident blocks": Metric(resident)} | share_of_bound(nodes, clocks)

    return gpu_task(point, counts, run, bound)


def share_of_bound(nodes: int, clocks: float) -> dict[str, Metric]:
    """Return the share of the bound by shared memory; `clocks` are those of all multiprocessors together."""
    share = nodes * WAVEFRONTS_PER_NODE / WARP / clocks
    found = {"share of shared-memory wavefronts at the highest clock": Metric(share)}
    if instructions := INSTRUCTIONS_PER_NODE.get(compute_capability()):
        found["instructions per node"] = Metric(instructions)
    return found


def device_code() -> list[DeviceKernel]:
    """Return the search as `run` launches it for 18 queens, with 12 queens to place below a task."""
    return [
        NumbaKernel("nqueens tuned", define_search(12), SIGNATURE, tuned=True, unit=f"{TURNS} nodes"),
        NumbaKernel("nqueens reset", reset, void(uint32[::1])),
    ]
