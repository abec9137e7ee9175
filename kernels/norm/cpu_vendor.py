"""Root-mean-square norm by NumPy's array operations: one core, four passes over arrays larger than the caches.

Bound: memory, as far as one core can use it: 7 elements pass through it where 2 are counted.
"""

from __future__ import annotations

from accelbench.kernels.lib.cpu.array_task import numpy_task
from accelbench.kernels.norm.reference import normalize, problem
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point


def prepare(point: Point) -> Task:
    """See `numpy_task`."""
    return numpy_task(point, problem(point), normalize)
