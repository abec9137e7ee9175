"""The task that the GPU implementations of norm share: the rows on the device, and the check of every element."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from accelbench.kernels.norm.answers import DEVIATION, draw_scale, verify_norm, work_of
from accelbench.kernels.rows import chunks
from accelbench.kernels.stream.gpu_arrays import Numbers, array_length, draw_normal, poison
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.devices.cupy_device import cupy_library, synchronize
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification


def make_task(point: Point, bind: Callable[[Any, Any, Any, int], Callable[[int], None]]) -> Task:
    """Return the task of the norm of random rows; `bind(x, scale, out, rows)` returns what enqueues it on a stream.

    x and out are flat, whole rows, and as long as stream's arrays. Skip where they would take more than half of the
    free device memory.
    """
    width, rng, dtype = int(point["width"]), point.rng(), np.dtype(np.float32)
    cupy = cupy_library()
    rows = max(1, array_length(4, arrays=2, moved=2) // width)
    x, out = (cupy.empty(rows * width, dtype) for _ in range(2))
    scale = draw_scale(rng, width)
    run = bind(x, cupy.asarray(scale), out, rows)

    def draw() -> Numbers:
        normal = draw_normal(rng, dtype)
        numbers = Numbers(np.float32(DEVIATION) * normal.a, normal.b)
        numbers.put(x)
        return numbers

    def verify() -> Verification:
        numbers = draw()
        poison(out)
        synchronize()
        run(0)
        synchronize()
        return verify_norm(parts(numbers), scale)

    def parts(numbers: Numbers) -> Iterator[tuple[Any, Any]]:
        for i, j in chunks(rows, width):
            begin, end = i * width, j * width
            found = out[begin:end].get()
            yield numbers.between(begin, end).reshape(-1, width), found.reshape(-1, width)

    draw()
    metrics = {"array": Metric(x.nbytes / 2**20, "MiB"), "rows": Metric(rows)}
    return Task(run=run, verify=verify, work=work_of(rows, width), metrics=lambda _seconds: metrics)
