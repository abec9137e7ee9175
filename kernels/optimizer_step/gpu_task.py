"""The task that the GPU implementations of optimizer-step share: arrays on the device, and the check of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from accelbench.kernels.optimizer_step.answers import GRADIENT, verify_step, work_of
from accelbench.kernels.rows import CHECKED_AT_ONCE
from accelbench.kernels.stream.gpu_arrays import Numbers, array_length, draw_normal
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.devices.cupy_device import cupy_library, synchronize
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification


def draw(rng: np.random.Generator) -> list[Numbers]:
    """Draw parameter, gradient, mean and mean square, which is positive."""
    parameter, gradient, mean, square = (draw_normal(rng, np.dtype(np.float32)) for _ in range(4))
    small = np.float32(GRADIENT)
    return [
        parameter,
        Numbers(small * gradient.a, gradient.b),
        Numbers(small * mean.a, mean.b),
        Numbers((small * square.a) ** 2, np.abs(square.b)),
    ]


def make_task(point: Point, bind: Callable[..., Callable[[int], None]], *, spare: bool = False) -> Task:
    """Return the task of the step in place; `bind(parameter, gradient, mean, square)` returns what enqueues it.

    An execution moves seven arrays; with `spare` a fifth is bound for what is between. Skip where they would take more
    than half of the free device memory.
    """
    count, rng = 5 if spare else 4, point.rng()
    cupy = cupy_library()
    length = array_length(4, arrays=count, moved=7)
    arrays = [cupy.empty(length, np.float32) for _ in range(count)]
    run = bind(*arrays)

    def put() -> list[Numbers]:
        numbers = draw(rng)
        for drawn, array in zip(numbers, arrays, strict=False):
            drawn.put(array)
        return numbers

    def verify() -> Verification:
        numbers = put()
        synchronize()
        run(0)
        synchronize()
        return verify_step(parts(numbers))

    def parts(numbers: list[Numbers]) -> Iterator[tuple[Any, Any]]:
        parameter, _, mean, square = arrays[:4]
        for begin in range(0, length, CHECKED_AT_ONCE):
            end = min(begin + CHECKED_AT_ONCE, length)
            found = [array[begin:end].get() for array in (parameter, mean, square)]
            yield [drawn.between(begin, end) for drawn in numbers], found

    put()
    metrics = {"parameters": Metric(length), "array": Metric(4 * length / 2**20, "MiB")}
    return Task(run=run, verify=verify, work=work_of(length), metrics=lambda _seconds: metrics)
