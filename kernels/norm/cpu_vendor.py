"""Root-mean-square norm by NumPy's array operations: one core, four passes over arrays larger than the caches.

Bound: the memory bandwidth of one core; 7 elements are moved for every 2 that are counted.
"""

from __future__ import annotations

from accelbench.kernels.lib.cpu.array_task import numpy_task
from accelbench.kernels.norm.reference import normalize, problem
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point


def prepare(point: Point) -> Task:
    """See `numpy_task`."""
    return numpy_task(point, problem(point), normalize)
