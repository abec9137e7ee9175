"""Tasks of CPU kernels that pass over long arrays (see `array_problem`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from accelbench.kernels.lib.array_problem import ArrayProblem, checked_task
from accelbench.kernels.lib.cpu.arrays import aligned_empty, rows_per_array, touch
from accelbench.kernels.lib.cpu.threads import thread_count
from accelbench.kernels.lib.random_array import RandomArray
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.free_memory import require_memory
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric


class HostMemory:
    """Access to NumPy arrays."""

    def write(self, array: Any, contents: Any) -> None:
        if isinstance(contents, RandomArray):
            contents.fill(array)
        else:
            array[:] = contents

    def poison(self, array: Any) -> None:
        array.fill(np.iinfo(array.dtype).max if array.dtype.kind == "i" else np.nan)

    def read(self, array: Any, begin: int, end: int) -> Any:
        return array[begin:end]


def array_task(
    point: Point, problem: ArrayProblem, kernel: Callable[..., object], *, threads: int | None = None, scratch: int = 0
) -> Task:
    """Return the task of `kernel(*arrays, threads)`; the arrays are those of the problem and `scratch` more long ones.

    Long arrays have the length that STREAM's rules require, divided equally between the threads, each of which touches
    its part first. `threads` defaults to the number of available CPUs. Skip if the arrays need more than half of the
    available memory.
    """
    threads = threads or thread_count()
    rows = rows_per_array(problem.width, threads, problem.dtype.itemsize)
    operands = [*problem.operands, *problem.operands[:1] * scratch]
    sizes = [(operand.size(rows), np.dtype(operand.dtype)) for operand in operands]
    require_memory(sum(count * dtype.itemsize for count, dtype in sizes))
    arrays = [aligned_empty(count, dtype) for count, dtype in sizes]
    for array in arrays:
        if len(array) == rows * problem.width:
            touch(array, array.dtype.type(1), threads)

    def run() -> None:
        kernel(*arrays, threads)

    return checked_task(
        problem,
        rows,
        arrays[: len(problem.operands)],
        HostMemory(),
        rng=point.rng(),
        run=run,
        run_to_end=run,
        metrics={**problem.metrics(rows), "threads": Metric(threads)},
    )


def numpy_task(point: Point, problem: ArrayProblem, operation: Callable[..., object], *, scratch: int = 0) -> Task:
    """Return the task of `operation(numpy, *arrays)`, which uses array operations on one core."""
    return array_task(point, problem, lambda *arguments: operation(np, *arguments[:-1]), threads=1, scratch=scratch)
