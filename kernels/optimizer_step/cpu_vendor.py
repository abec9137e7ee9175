"""The step of AdamW by NumPy's array operations: one core, fourteen passes over arrays that no cache holds.

Bound: memory, as far as one core can use it: 32 elements pass through it where 7 are counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from accelbench.kernels.optimizer_step.answers import step
from accelbench.kernels.optimizer_step.cpu_task import make_task
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point


def prepare(point: Point) -> Task:
    """See `make_task`."""

    def run(*arrays_and_threads: Any) -> None:
        step(np, *arrays_and_threads[:-1])

    return make_task(point, run, threads=1, spare=True)
