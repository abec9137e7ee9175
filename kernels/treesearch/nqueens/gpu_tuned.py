"""N-Queens on a GPU as fast as it goes: one queen of every lane per turn, and a lane that is done takes the next task.

The border queens stand already, one of each eight symmetric placements of them (`kernels.treesearch.nqueens.borders`),
and the CPU has placed the first inner rows too: millions of tasks, those with the most free squares first. The grid is
as large as the device can hold at once. Every lane searches below one task at a time.

Bound: integer instructions. A turn of the loop places exactly one queen per lane and takes INSTRUCTIONS_PER_NODE, most
of them on a pipe that starts one for 16 lanes per clock, and no global memory is touched. What that takes:

- Descending, trying the next square and going back are one code path: whether a lane descends is a select, not a
  branch. Rows that have no square left are never pushed, so a lane that goes back finds a square to try at once.
- A row is stored as the squares that are *taken*: `columns` holds ones outside of the board as well, so it is all ones
  when all queens stand, its zeros count the queens to be placed, and `taken & (taken + 1)` and its kin need no mask.
- A frame is 16 bytes of shared memory, one access. What border queens attack, and the distance to the next row, is a
  table of the lane's own there. Both are laid out so that 32 lanes never meet in a bank, whatever their rows.
- Only when the whole task is done is there a branch that seldom a lane takes.

Measured share of the bound: not measured yet on a GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.device_code import DeviceKernel, NumbaKernel
from kernels.numba_cuda import cuda, numba_stream, uint32, void
from kernels.treesearch.nqueens.borders import STEP_SHIFT, Tasks, cut
from kernels.treesearch.nqueens.device_counts import DeviceCounts, gpu_task
from profiling.benchmark import Metric, Point, Task
from profiling.cuda import attribute, require_device_memory

THREADS = 128
BLOCKS_PER_MULTIPROCESSOR = 5
"""5 × 43 KiB of shared memory is what a multiprocessor of compute capability 9.0 or 10.0 has; others hold fewer."""
LOOK_AHEAD = 1
"""Looking two rows ahead saves a sixth of the nodes, and takes a fifth more instructions for each."""
TO_PLACE = 17
"""Queens below a task at most: of 22 queens the border takes 3 to 4 and the CPU 2."""
SLOTS = TO_PLACE + 1
WORDS = 4
"""Words of a frame: squares taken, and the row's columns, left and right."""
MIN_TASKS = 500_000
"""Several for each of the 84,480 lanes that 132 multiprocessors hold, so that all end at about the same time."""
INSTRUCTIONS_PER_NODE = 39
"""Of the loop at compute capability 9.0, without the branch that takes the next task (`make kernels-report`)."""
ISSUED_PER_CLOCK = 4
"""Warp instructions that a multiprocessor issues per clock at most: one per scheduler."""
WARP = 32

FULL = uint32(0xFFFFFFFF)
FRAME = uint32(THREADS * WORDS)
STACK = TO_PLACE * THREADS * WORDS
ROWS = SLOTS * THREADS


@cuda.jit
def reset(counter: Any) -> None:
    counter[0] = 0


@cuda.jit
def search(
    tasks: Any, columns_of: Any, left_of: Any, right_of: Any, border_of: Any, rows_of: Any, counter: Any,
    nodes_of: Any, solutions_of: Any,
) -> None:  # fmt: skip
    """Count the queens placed and the solutions found below every task; `counter` is 0 before."""
    stack = cuda.shared.array(STACK, uint32, alignment=16)
    rows = cuda.shared.array(ROWS, uint32)
    zero, one = uint32(0), uint32(1)
    thread = uint32(cuda.threadIdx.x)
    bottom = uint32(thread * uint32(WORDS))
    stack[bottom] = FULL  # the frame below all others: a row without a free square, whose task is done
    taken = FULL
    columns = left = right = nodes = solutions = zero
    top = uint32(bottom + FRAME)
    task = tasks
    while True:
        if taken == FULL:
            top = uint32(top - FRAME)
            taken = stack[top]
            columns = stack[top + uint32(1)]
            left = stack[top + uint32(2)]
            right = stack[top + uint32(3)]
            if taken == FULL:
                if task < tasks:
                    nodes_of[task] = nodes
                    solutions_of[task] = solutions
                task = uint32(cuda.atomic.add(counter, 0, one))
                if task >= tasks:
                    break
                entry = uint32(border_of[task] * uint32(SLOTS))
                slot = zero
                while slot < uint32(SLOTS):
                    rows[uint32(slot * uint32(THREADS) + thread)] = rows_of[uint32(entry + slot)]
                    slot = uint32(slot + one)
                columns = columns_of[task]
                left = left_of[task]
                right = right_of[task]
                to_place = uint32(uint32(32) - uint32(cuda.popc(columns)))
                taken = uint32(columns | left | right | rows[uint32(to_place * uint32(THREADS) + thread)])
                top = uint32(bottom + FRAME)
                nodes = solutions = zero
        queen = uint32(~taken & (taken + one))
        rest = uint32(taken | queen)
        next_columns = uint32(columns | queen)
        to_place = uint32(uint32(32) - uint32(cuda.popc(next_columns)))
        row = rows[uint32(to_place * uint32(THREADS) + thread)]
        step = uint32(row >> uint32(STEP_SHIFT))
        next_left = uint32((left | queen) << step)
        next_right = uint32((right | queen) >> step)
        next_taken = uint32(next_columns | next_left | next_right | row)
        nodes = uint32(nodes + one)
        if next_columns == FULL:
            solutions = uint32(solutions + one)
        descend = next_taken != FULL
        if descend and rest != FULL:
            stack[top] = rest
            stack[top + uint32(1)] = columns
            stack[top + uint32(2)] = left
            stack[top + uint32(3)] = right
            top = uint32(top + FRAME)
        columns = cuda.selp(descend, next_columns, columns)
        left = cuda.selp(descend, next_left, left)
        right = cuda.selp(descend, next_right, right)
        taken = cuda.selp(descend, next_taken, rest)


def rows_by_queens_to_place(tasks: Tasks) -> Any:
    """uint32 (borders, SLOTS): for r queens to place, what border queens attack in that row, and the step into it.

    ValueError where a task has more than `TO_PLACE` queens to place.
    """
    borders = tasks.borders
    deepest = int(borders.length.max(initial=0)) - tasks.depth
    if deepest > TO_PLACE:
        raise ValueError(f"{borders.queens} queens: {deepest} to place below a task, and frames for {TO_PLACE}")
    length = borders.length.astype(np.int64)
    attacked = borders.rows & np.uint32((1 << STEP_SHIFT) - 1)
    steps = borders.rows & ~np.uint32((1 << STEP_SHIFT) - 1)
    every = np.arange(len(borders))
    table = np.zeros((len(borders), SLOTS), np.uint32)
    for to_place in range(1, SLOTS):
        row = length - to_place
        table[:, to_place] = np.where(row >= 0, attacked[every, np.maximum(row, 0)], 0)
        table[:, to_place] |= np.where(row >= 1, steps[every, np.maximum(row - 1, 0)], 0)
    return table


def prepare(point: Point) -> Task:
    """Place the borders and the first rows, and put the tasks on the device."""
    tasks = cut(int(point["queens"]), MIN_TASKS, LOOK_AHEAD)
    table = rows_by_queens_to_place(tasks)
    require_device_memory(24 * len(tasks) + table.nbytes)
    counts = DeviceCounts(tasks)
    states = (~(tasks.borders.board & ~tasks.columns), tasks.left, tasks.right, tasks.border)
    inputs = [cuda.to_device(x if len(x) else np.zeros(1, np.uint32)) for x in (*states, table.reshape(-1))]
    counter = cuda.device_array(1, np.uint32)
    multiprocessors = attribute("MultiProcessorCount")
    grid = max(1, min(-(-len(tasks) // THREADS), BLOCKS_PER_MULTIPROCESSOR * multiprocessors))

    def run(stream: int = 0) -> None:
        queue = numba_stream(stream)
        reset[1, 1, queue](counter)
        search[grid, THREADS, queue](np.uint32(len(tasks)), *inputs, counter, counts.nodes, counts.solutions)

    def bound(nodes: int, seconds: float) -> dict[str, Metric]:
        issued = nodes * INSTRUCTIONS_PER_NODE / WARP
        at_most = multiprocessors * ISSUED_PER_CLOCK * attribute("ClockRate") * 1e3 * seconds
        return {
            "instructions per node": Metric(INSTRUCTIONS_PER_NODE),
            "share of instruction issue at the highest clock": Metric(issued / at_most),
        }

    return gpu_task(point, counts, run, bound)


def device_code() -> list[DeviceKernel]:
    """The search, as `run` launches it."""
    words = uint32[::1]
    signature = void(uint32, words, words, words, words, words, words, words, words)
    return [
        NumbaKernel("nqueens tuned", search, signature, tuned=True, unit="node"),
        NumbaKernel("nqueens reset", reset, void(words)),
    ]
