"""The task that both GPU implementations of reduce share: the array on the device, and the check of the sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from accelbench.kernels.exact import LARGEST, SUM_TYPE, verify_sum
from accelbench.kernels.stream.gpu_arrays import array_length, draw_whole, exact_sum
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.devices.cupy_device import cupy_library, synchronize
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work


def make_task(point: Point, bind: Callable[[Any, Any], Callable[[int], None]]) -> Task:
    """Return the task of summing random whole numbers; `bind(x, out)` returns what enqueues it on a stream.

    The array is twice as long as one of stream's, because an execution reads it alone. Skip where it would take more
    than half of the free device memory.
    """
    cupy, dtype = cupy_library(), np.dtype(str(point["dtype"]))
    n = array_length(dtype.itemsize, arrays=1, moved=1)
    x, out = cupy.empty(n, dtype), cupy.empty(1, SUM_TYPE[dtype.name])
    run, rng = bind(x, out), point.rng()

    def verify() -> Verification:
        numbers = draw_whole(rng, LARGEST)
        numbers.put(x)
        # A sum that is not written stays at one that no such array has.
        out.set(np.array([np.iinfo(np.int64).max], out.dtype))
        synchronize()
        run(0)
        synchronize()
        return verify_sum(exact_sum(numbers.factors(0, n)), out.get()[0])

    draw_whole(rng, LARGEST).put(x)
    array = Metric(n * dtype.itemsize / 2**20, "MiB")
    return Task(run=run, verify=verify, work=Work(bytes=n * dtype.itemsize), metrics=lambda _seconds: {"array": array})
