"""The task that the CPU implementations of norm share: the rows, and the check of every element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from accelbench.kernels.lib.cpu.arrays import aligned_empty, chunks, rows_per_array, touch
from accelbench.kernels.lib.cpu.threads import thread_count
from accelbench.kernels.norm.answers import DEVIATION, draw_scale, verify_norm, work_of
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.free_memory import require_memory
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification


def make_task(point: Point, normalize: Callable[[Any, Any, Any, int], None], threads: int | None = None) -> Task:
    """Return the task of `normalize(x, scale, out, threads)` on random rows, x and out being of (rows, width).

    The arrays are as long as stream's, in equal parts for `threads`, all there are unless given, which touch them
    first. Skip where they would take more than half of the available memory.
    """
    width, threads = int(point["width"]), threads or thread_count()
    rows = rows_per_array(width, threads)
    require_memory(2 * 4 * rows * width)
    flat = [aligned_empty(rows * width, np.float32) for _ in range(2)]
    for array in flat:
        touch(array, np.float32(1), threads)
    x, out = (array.reshape(rows, width) for array in flat)
    rng = point.rng()
    scale = draw_scale(rng, width)

    def draw() -> None:
        rng.standard_normal(dtype=np.float32, out=flat[0])
        flat[0][:] *= np.float32(DEVIATION)

    def run() -> None:
        normalize(x, scale, out, threads)

    def verify() -> Verification:
        draw()
        out.fill(np.nan)
        run()
        return verify_norm(((x[i:j], out[i:j]) for i, j in chunks(rows, width)), scale)

    metrics = {"array": Metric(x.nbytes / 2**20, "MiB"), "rows": Metric(rows), "threads": Metric(threads)}
    draw()
    return Task(run=run, verify=verify, work=work_of(rows, width), metrics=lambda _seconds: metrics)
