"""Tasks of GPU kernels that pass over long arrays (see `array_problem`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from accelbench.kernels.lib.array_problem import ArrayProblem, checked_task
from accelbench.kernels.lib.gpu.arrays import array_length, poison, put
from accelbench.kernels.lib.random_array import RandomArray
from accelbench.profiling.benchmark import Task
from accelbench.profiling.devices.cupy_device import cupy_library, cupy_stream, synchronize
from accelbench.profiling.records.point import Point


class DeviceMemory:
    """Access to CuPy arrays."""

    def write(self, array: Any, contents: Any) -> None:
        if isinstance(contents, RandomArray):
            put(contents, array)
        else:
            array.set(contents)

    def poison(self, array: Any) -> None:
        poison(array)

    def read(self, array: Any, begin: int, end: int) -> Any:
        return array[begin:end].get()


def array_task(
    point: Point, problem: ArrayProblem, bind: Callable[..., Callable[[int], object]], *, scratch: int = 0
) -> Task:
    """Return the task of the kernel that `bind(*arrays)` returns; the arrays are those of the problem and `scratch`
    more long ones.

    The arrays are CuPy arrays; long ones have the length that `array_length` returns. `bind` returns `run(stream)`,
    which enqueues the kernel on a stream. Skip if the arrays need more than half of the free device memory.
    """
    cupy, count = cupy_library(), len(problem.long) + scratch
    length = array_length(problem.dtype.itemsize, arrays=count, moved=problem.moved)
    rows = max(1, length // problem.width)
    operands = [*problem.operands, *problem.operands[:1] * scratch]
    arrays = [cupy.empty(operand.size(rows), operand.dtype) for operand in operands]
    run = bind(*arrays)

    def run_to_end() -> None:
        synchronize()
        run(0)
        synchronize()

    return checked_task(
        problem,
        rows,
        arrays[: len(problem.operands)],
        DeviceMemory(),
        rng=point.rng(),
        run=run,
        run_to_end=run_to_end,
        metrics=problem.metrics(rows),
    )


def cupy_task(point: Point, problem: ArrayProblem, operation: Callable[..., object], *, scratch: int = 0) -> Task:
    """Return the task of `operation(cupy, *arrays)`, which uses array operations, each of one or more kernels."""
    cupy = cupy_library()

    def bind(*arrays: Any) -> Callable[[int], None]:
        def run(stream: int = 0) -> None:
            with cupy_stream(stream):
                operation(cupy, *arrays)

        return run

    return array_task(point, problem, bind, scratch=scratch)
