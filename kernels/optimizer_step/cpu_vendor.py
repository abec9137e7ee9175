"""Step of AdamW by NumPy's array operations: one core, fourteen passes over arrays larger than the caches.

Bound: the memory bandwidth of one core; 32 elements are moved for every 7 that are counted.
"""

from __future__ import annotations

from accelbench.kernels.lib.cpu.array_task import numpy_task
from accelbench.kernels.optimizer_step.reference import problem, step
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point


def prepare(point: Point) -> Task:
    """See `numpy_task`."""
    return numpy_task(point, problem(), step, scratch=1)
