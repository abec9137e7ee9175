"""Tasks of JAX kernels that pass over long arrays (see `array_problem`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from accelbench.kernels.lib.array_problem import ArrayProblem, Operand, checked_task
from accelbench.kernels.lib.cpu.arrays import rows_per_array
from accelbench.kernels.lib.cpu.threads import thread_count
from accelbench.kernels.lib.random_array import RandomArray
from accelbench.kernels.lib.xla import Loop, Xla, timed_as_loop
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point

LEAST_BYTES = 512 << 20
"""Minimum bytes of an array on an accelerator: four times the largest caches (TPU v5e and v6e: 128 MiB of VMEM; B200:
126 MB of L2)."""
MEMORY_SHARE, MOST_BYTES = 16, 7 << 30
"""An execution moves at least a sixteenth of an accelerator's memory, or 7 GiB: this takes about 1 ms or longer, much
longer than the loop takes between two iterations."""


class HeldMemory:
    """Access to the arrays of a loop by their indices.

    All arrays lie in memory of JAX's own allocation. With a NumPy array's memory, dot took up to 20 % longer in some
    processes.
    """

    def __init__(self, xla: Xla, loop: Loop, shapes: Sequence[tuple[tuple[int, ...], Any]]) -> None:
        self._xla, self._loop, self._shapes = xla, loop, shapes

    def write(self, array: int, contents: Any) -> None:
        shape, dtype = self._shapes[array]
        if isinstance(contents, RandomArray):
            drawn, contents = contents, np.empty(int(np.prod(shape)), dtype)
            drawn.fill(contents)
        self._loop.arrays[array] = self._xla.copy(contents.reshape(shape))

    def poison(self, array: int) -> None:
        shape, dtype = self._shapes[array]
        value = np.iinfo(dtype).max if dtype.kind == "i" else np.nan
        self._loop.arrays[array] = self._xla.full(shape, value, dtype)

    def read(self, array: int, begin: int, end: int) -> Any:
        return np.asarray(self._loop.arrays[array]).reshape(-1)[begin:end]


def xla_array_task(point: Point, problem: ArrayProblem, kernel: Callable[..., Sequence[Any]]) -> Task:
    """Return the task of `kernel(*arrays)`, which returns the new contents of the written arrays, in their order.

    An array of the problem has the shape (rows, length); it is one-dimensional if the length of a row is 1 or the array
    has no rows. Skip if all arrays need more than half of the available memory.
    """
    xla = Xla.on(point)
    rows = rows_of(problem, xla)
    xla.require_memory(sum(each.size(rows) * np.dtype(each.dtype).itemsize for each in problem.operands))
    shapes = [(shape_of(each, rows), np.dtype(each.dtype)) for each in problem.operands]
    written = [place for place, each in enumerate(problem.operands) if each.written]
    loop = Loop(xla, kernel, [xla.full(shape, 0, dtype) for shape, dtype in shapes], written)
    task = checked_task(
        problem,
        rows,
        range(len(shapes)),
        HeldMemory(xla, loop, shapes),
        rng=point.rng(),
        run=loop.run,
        run_to_end=loop.run,
        metrics=problem.metrics(rows),
    )
    return timed_as_loop(task, loop)


def shape_of(operand: Operand, rows: int) -> tuple[int, ...]:
    """Return the shape of an operand's array."""
    return (rows, operand.length) if operand.per_row and operand.length > 1 else (operand.size(rows),)


def rows_of(problem: ArrayProblem, xla: Xla) -> int:
    """Return the number of rows with which the long arrays exceed the caches."""
    itemsize = problem.dtype.itemsize
    if xla.kind == "cpu":
        return rows_per_array(problem.width, thread_count(), itemsize)
    long_enough = min(xla.free_bytes() // MEMORY_SHARE, MOST_BYTES) // problem.moved
    rows: int = max(LEAST_BYTES, long_enough) // itemsize // problem.width
    return max(1, rows)
