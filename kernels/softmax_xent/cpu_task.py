"""The task that the CPU implementations of softmax-xent share: scores and labels, and the check of every element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from accelbench.kernels.lib.cpu.arrays import aligned_empty, chunks, rows_per_array, touch
from accelbench.kernels.lib.cpu.threads import thread_count
from accelbench.kernels.softmax_xent.answers import DEVIATION, MEAN, draw_labels, verify_cross_entropy, work_of
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.free_memory import require_memory
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification

Differentiate = Callable[[Any, Any, Any, Any, int], None]


def make_task(point: Point, differentiate: Differentiate, threads: int | None = None) -> Task:
    """Return the task of `differentiate(scores, labels, losses, gradient, threads)` on random scores and labels.

    The arrays of (rows, vocabulary) are as long as stream's, in equal parts for `threads`, all there are unless given,
    which touch them first. Skip where they would take more than half of the available memory.
    """
    width, threads = int(point["vocabulary"]), threads or thread_count()
    rows = rows_per_array(width, threads)
    require_memory(2 * 4 * rows * width)
    flat = [aligned_empty(rows * width, np.float32) for _ in range(2)]
    for array in flat:
        touch(array, np.float32(1), threads)
    scores, gradient = (array.reshape(rows, width) for array in flat)
    rng, losses, labels = point.rng(), np.empty(rows, np.float32), np.empty(rows, np.int32)

    def draw() -> None:
        rng.standard_normal(dtype=np.float32, out=flat[0])
        flat[0][:] *= np.float32(DEVIATION)
        flat[0][:] += np.float32(MEAN)
        labels[:] = draw_labels(rng, rows, width)

    def run() -> None:
        differentiate(scores, labels, losses, gradient, threads)

    def verify() -> Verification:
        draw()
        gradient.fill(np.nan)
        losses.fill(np.nan)
        run()
        parts = ((scores[i:j], labels[i:j], losses[i:j], gradient[i:j]) for i, j in chunks(rows, width))
        return verify_cross_entropy(parts, rows)

    metrics = {"array": Metric(scores.nbytes / 2**20, "MiB"), "rows": Metric(rows), "threads": Metric(threads)}
    draw()
    return Task(run=run, verify=verify, work=work_of(rows, width), metrics=lambda _seconds: metrics)
