"""The task that both CPU implementations of reduce share: the array, and the check of the sum."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from accelbench.kernels.lib.cpu.arrays import aligned_empty, elements_per_array, touch
from accelbench.kernels.lib.cpu.threads import thread_count
from accelbench.kernels.lib.exact import draw, verify_sum
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.free_memory import require_memory
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work


def make_task(point: Point, total: Callable[[Any, int], Any], threads: int | None = None) -> Task:
    """Return the task of summing random whole numbers by `total(array, threads)`.

    The array is as long as stream's, in equal parts for `threads`, all there are unless given, which touch it first.
    Skip where it would take more than half of the available memory.
    """
    threads = threads or thread_count()
    dtype = np.dtype(str(point["dtype"]))
    n = elements_per_array(dtype.itemsize, threads)
    require_memory(n * dtype.itemsize)
    array = aligned_empty(n, dtype)
    touch(array, dtype.type(1), threads)
    rng, found = point.rng(), math.nan

    def run() -> None:
        nonlocal found
        found = total(array, threads)

    def verify() -> Verification:
        nonlocal found
        expected, found = draw(rng, array), math.nan
        run()
        return verify_sum(expected, found)

    metrics = {"array": Metric(n * dtype.itemsize / 2**20, "MiB"), "threads": Metric(threads)}
    draw(rng, array)
    return Task(run=run, verify=verify, work=Work(bytes=n * dtype.itemsize), metrics=lambda _seconds: metrics)
