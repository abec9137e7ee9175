"""Fast N-Queens on a GPU: a queen of every lane per iteration, and idle lanes take the next task.

The border queens stand already, one of each eight symmetric placements of them
(`accelbench.kernels.treesearch.nqueens.borders`), and the CPU has placed the first inner rows too: millions of tasks,
those with the most free squares first. The grid is as large as the device can hold at once. Every lane searches below
one task at a time.

Bound: a turn of the loop places exactly one queen per lane, takes INSTRUCTIONS_PER_NODE, and touches no global memory.
At compute capability 9.0, 16 of the 25 are for the pipe that starts one for 16 lanes per clock. A turn of a warp moves
nine times 128 bytes of shared memory, and a multiprocessor moves 128 per clock for its four schedulers: 36 cycles per
turn, so that at most 70 % of the instructions that could be issued are. Enough warps must be resident to hide the
latency of a turn, most of which are two accesses to shared memory, one after the other. What that takes:

- The row goes to the stack with its remaining squares, if there are any, and the search always descends. Where that
  leaves no square, it takes back the highest frame, often the one that it has just stored. So there is no choice
  between the row and the next one, which took four selects and two comparisons.
- A row is stored as the squares that are *taken*: `columns` holds ones outside of the board as well, so it is all ones
  when all queens stand, its ones count the queens placed, and `taken & (taken + 1)` and its kin need no mask.
- What border queens attack in a row, and the step into it, is one word of a table of the lane's own in shared memory.
  The step is in the low five bits, below the board, which are all that the hardware's shift looks at. The top bit says
  that no row is left, and is added to the solutions.
- A frame is 16 bytes of shared memory, one access. Frames and rows are laid out so that 32 lanes never meet in a bank.
  Their memory limits the warps of a multiprocessor, so the kernel is built for the depth of its tasks.
- Turns are counted instead of nodes, and two turns are written out: 25 instructions each instead of 30.
- Only when the whole task is done is there a branch. It takes a warp 55 instructions and three waits for global memory,
  where a task lies as its first frame. At 16 queens, whose tasks have 251 nodes on average, some lane of a warp takes
  it every eight turns, which adds seven instructions to each; from 18 queens on every hundred turns or more.

Measured share of the bound: not measured yet on a GPU.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from accelbench.kernels.lib.gpu.device_code import DeviceKernel, NumbaKernel
from accelbench.kernels.lib.gpu.numba_cuda import cuda, numba_stream, uint32, void
from accelbench.kernels.lib.gpu.wide_access import load_wide
from accelbench.kernels.treesearch.nqueens.borders import STEP_SHIFT, Tasks, cut
from accelbench.kernels.treesearch.nqueens.device_counts import DeviceCounts, gpu_task
from accelbench.kernels.treesearch.nqueens.residency import ALL_SHARED, registers_per_thread, this_device
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
"""The threads of a block: few, so that little of a multiprocessor's shared memory is left over."""
LOOK_AHEAD = 1
"""Looking two rows ahead saves a sixth of the nodes, and takes about eight more instructions for each."""
MIN_TASKS, MANY_TASKS, MANY_FROM = 500_000, 2_000_000, 19
"""The fewest tasks, and the larger number from 19 queens on, where a task is large and taking it costs nothing.

If each task goes to the lane that is free first, lanes wait for the last ones 9 % of the time with 12 tasks for each
lane, 7 % with 25 and 1 % with 88 (tasks of 16 queens, simulated). 132 multiprocessors of compute capability 9.0 hold
126,720 lanes at 18 queens and 109,824 at 20, so there are 25 and 88 for each.
"""
TURNS = 2
"""The turns written out in a row: the second needs no jump, and the two use different registers without moving any."""
INSTRUCTIONS_PER_NODE = {
    (7, 5): 26, (8, 0): 25, (8, 6): 25, (8, 9): 25, (9, 0): 25, (10, 0): 27, (10, 3): 27, (12, 0): 27,
}  # fmt: skip
"""The instructions of a turn, by compute capability, without the branch to the next task (`make kernels-report`)."""
ISSUED_PER_CLOCK = 4
"""Warp instructions that a multiprocessor issues per clock at most: one per scheduler."""
WARP = 32

BITS = 32
BOARD_SHIFT = 5
"""The board's columns stand above the bits that a shift looks at."""
ATTACKED = np.uint32((1 << STEP_SHIFT) - 1)
SOLVED = 31
"""The bit of a row's word that says that no row is left."""
FULL = uint32(0xFFFFFFFF)
SIGNATURE = void(uint32, *[uint32[::1]] * 6)
"""The search's types: number of tasks, their frames and borders; the borders' rows; the counter; nodes, solutions."""


@cuda.jit
def reset(counter: Any) -> None:
    counter[0] = 0


def most_frames(to_place: int) -> int:
    """Return the most frames of a lane: the last row has one square at most, so that it is stored only at the start."""
    return max(to_place - 1, 1)


def shared_bytes(to_place: int) -> int:
    """Return the shared memory of a block, if up to that many queens are to be placed below a task."""
    return THREADS * (FRAME_BYTES * most_frames(to_place) + WORD_BYTES * to_place)


@cache
def define_search(to_place: int) -> Any:
    """Return the kernel for tasks with up to `to_place` ≥ 1 queens to place."""
    frame, row = uint32(THREADS * FRAME_BYTES), uint32(THREADS * WORD_BYTES)
    stack_words, rows_words = THREADS * FRAME_WORDS * most_frames(to_place), THREADS * to_place
    pitch = pitch_of(to_place)
    ones = uint32(
        BITS - to_place + 1
    )  # in `columns`, outside of the board too, when the first row of the table is next

    @cuda.jit(**ALL_SHARED)
    def search(
        tasks: Any, frame_of: Any, border_of: Any, rows_of: Any, counter: Any, nodes_of: Any, solutions_of: Any
    ) -> None:  # fmt: skip
        """Count the queens placed and the solutions found below every task; `counter` is 0 before."""
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
    """Return the most queens to place below a task; 1 if there is no task."""
    return max(int(tasks.borders.length.max(initial=0)) - tasks.depth, 1)


def frames_of(tasks: Tasks) -> Any:
    """uint32 (tasks, 4): the frame that each begins with: squares taken, and the row's columns, left and right."""
    borders, shift = tasks.borders, np.uint32(BOARD_SHIFT)
    columns = ~((borders.board & ~tasks.columns) << shift)
    left, right = tasks.left << shift, tasks.right << shift
    attacked = (borders.rows[tasks.border, tasks.depth] & ATTACKED) << shift
    return np.stack([columns | left | right | attacked, columns, left, right], axis=1)


def pitch_of(to_place: int) -> int:
    """Return the words between the tables of two borders: whole frames, which are read in one access."""
    return -(-to_place // FRAME_WORDS) * FRAME_WORDS


def rows_of(tasks: Tasks) -> Any:
    """uint32 (borders, pitch): what border queens attack in a row, and the step into it, from the second row on.

    The first row is that with the most queens to place below a task: no step leads into it. The row after the last is
    one whose word says that none is left.
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
    """Place the borders and the first rows, and put the tasks on the device."""
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
        at_most = multiprocessors * ISSUED_PER_CLOCK * attribute("ClockRate") * 1e3 * seconds
        return {"resident blocks": Metric(resident)} | share_of_issue(nodes, at_most)

    return gpu_task(point, counts, run, bound)


def share_of_issue(nodes: int, at_most: float) -> dict[str, Metric]:
    """Return the share of the warp instructions that could be issued; none, and why, where a node's are not counted."""
    major, minor = compute_capability()
    instructions = INSTRUCTIONS_PER_NODE.get((major, minor))
    if instructions is None:
        return {"instructions per node are not counted at compute capability": Metric(float(f"{major}.{minor}"))}
    return {
        "instructions per node": Metric(instructions),
        "share of instruction issue at the highest clock": Metric(nodes * instructions / WARP / at_most),
    }


def device_code() -> list[DeviceKernel]:
    """Return the search as `run` launches it for 18 queens: 12 of them are to be placed below a task."""
    return [
        NumbaKernel("nqueens tuned", define_search(12), SIGNATURE, tuned=True, unit=f"{TURNS} nodes"),
        NumbaKernel("nqueens reset", reset, void(uint32[::1])),
    ]
