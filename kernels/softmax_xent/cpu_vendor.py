"""Cross-entropy and gradient by NumPy's array operations: one core, five passes over arrays larger than the caches.

Bound: memory, as far as one core can use it: 8 elements pass through it where 2 are counted.
"""

from __future__ import annotations

from accelbench.kernels.lib.cpu.array_task import numpy_task
from accelbench.kernels.softmax_xent.reference import cross_entropy, problem
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point


def prepare(point: Point) -> Task:
    """See `numpy_task`."""
    return numpy_task(point, problem(point), cross_entropy)
