"""The task that the CPU implementations of optimizer-step share: the arrays, and the check of every element."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from accelbench.kernels.lib.cpu.arrays import CHECKED_AT_ONCE, aligned_empty, elements_per_array, touch
from accelbench.kernels.lib.cpu.threads import thread_count
from accelbench.kernels.optimizer_step.answers import GRADIENT, verify_step, work_of
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.free_memory import require_memory
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification


def drawn(seed: int, length: int) -> Iterator[tuple[Any, ...]]:
    """Yield random (parameter, gradient, mean, square) of CHECKED_AT_ONCE elements after another, the same every time.

    The step overwrites what it reads, so the check draws it again.
    """
    rng = np.random.default_rng(seed)
    for begin in range(0, length, CHECKED_AT_ONCE):
        count = min(CHECKED_AT_ONCE, length - begin)
        parameter, gradient, mean, root = (rng.standard_normal(count, np.float32) for _ in range(4))
        small = np.float32(GRADIENT)
        yield parameter, small * gradient, small * mean, (small * root) ** 2


def make_task(point: Point, step: Callable[..., None], *, threads: int | None = None, spare: bool = False) -> Task:
    """Return the task of `step(parameter, gradient, mean, square, threads)`, in place, on random numbers.

    An array is as long as stream's, in equal parts for `threads`, all there are unless given, which touch it first.
    With `spare` a fifth array comes before `threads`. Skip where they would take more than half of the available
    memory.
    """
    threads = threads or thread_count()
    length = elements_per_array(4, threads)
    count = 5 if spare else 4
    require_memory(count * 4 * length)
    arrays = [aligned_empty(length, np.float32) for _ in range(count)]
    for array in arrays:
        touch(array, np.float32(1), threads)
    parameter, _, mean, square = arrays[:4]
    rng = point.rng()

    def draw() -> int:
        seed = int(rng.integers(2**63))
        for i, numbers in enumerate(drawn(seed, length)):
            for array, values in zip(arrays, numbers, strict=False):
                array[i * CHECKED_AT_ONCE :][: len(values)] = values
        return seed

    def run() -> None:
        step(*arrays, threads)

    def results() -> Iterator[tuple[Any, ...]]:
        for begin in range(0, length, CHECKED_AT_ONCE):
            yield tuple(array[begin : begin + CHECKED_AT_ONCE] for array in (parameter, mean, square))

    def verify() -> Verification:
        seed = draw()
        run()
        return verify_step(zip(drawn(seed, length), results(), strict=True))

    metrics = {"parameters": Metric(length), "array": Metric(4 * length / 2**20, "MiB"), "threads": Metric(threads)}
    draw()
    return Task(run=run, verify=verify, work=work_of(length), metrics=lambda _seconds: metrics)
