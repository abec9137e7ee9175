"""The task that the GPU implementations of softmax-xent share: scores and labels, and the check of every element."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from accelbench.kernels.rows import chunks
from accelbench.kernels.softmax_xent.answers import DEVIATION, MEAN, draw_labels, verify_cross_entropy, work_of
from accelbench.kernels.stream.gpu_arrays import PERIODS, Numbers, array_length, poison
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.devices.cupy_device import cupy_library, synchronize
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification

Bind = Callable[[Any, Any, Any, Any], Callable[[int], None]]


def draw_scores(rng: np.random.Generator) -> Numbers:
    """Draw normal numbers around MEAN, times others between 1 and 1.05, which spread about as little."""
    normal = rng.standard_normal(PERIODS[0], np.float32)
    return Numbers(
        np.float32(MEAN) + np.float32(DEVIATION) * normal,
        np.float32(1) + np.float32(0.05) * rng.random(PERIODS[1], np.float32),
    )


def make_task(point: Point, bind: Bind) -> Task:
    """Return the task on random scores; `bind(scores, labels, losses, gradient)` returns what enqueues it on a stream.

    Scores and gradient are flat, whole rows, and as long as stream's arrays; there is a label and a loss for each row.
    Skip where they would take more than half of the free device memory.
    """
    width, rng = int(point["vocabulary"]), point.rng()
    cupy = cupy_library()
    rows = max(1, array_length(4, arrays=2, moved=2) // width)
    scores, gradient = (cupy.empty(rows * width, np.float32) for _ in range(2))
    labels, losses = cupy.empty(rows, np.int32), cupy.empty(rows, np.float32)
    run = bind(scores, labels, losses, gradient)

    def draw() -> tuple[Numbers, Any]:
        numbers, drawn = draw_scores(rng), draw_labels(rng, rows, width)
        numbers.put(scores)
        labels.set(drawn)
        return numbers, drawn

    def verify() -> Verification:
        numbers, drawn = draw()
        for array in (losses, gradient):
            poison(array)
        synchronize()
        run(0)
        synchronize()
        return verify_cross_entropy(parts(numbers, drawn, losses.get()), rows)

    def parts(numbers: Numbers, drawn: Any, found: Any) -> Iterator[tuple[Any, Any, Any, Any]]:
        for i, j in chunks(rows, width):
            begin, end = i * width, j * width
            part = gradient[begin:end].get()
            shape = (j - i, width)
            yield numbers.between(begin, end).reshape(shape), drawn[i:j], found[i:j], part.reshape(shape)

    draw()
    metrics = {"array": Metric(scores.nbytes / 2**20, "MiB"), "rows": Metric(rows)}
    return Task(run=run, verify=verify, work=work_of(rows, width), metrics=lambda _seconds: metrics)
