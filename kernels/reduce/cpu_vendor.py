"""The sum by NumPy: one core, vector registers, pairs of halves so that rounding errors stay small.

Bound: memory, as far as one core can use it.
"""

from __future__ import annotations

from accelbench.kernels.reduce.cpu_task import make_task
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point


def prepare(point: Point) -> Task:
    """See `make_task`."""
    return make_task(point, lambda array, threads: array.sum(), threads=1)
