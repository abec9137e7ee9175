"""Sum by NumPy: one core, vector registers, pairwise summation.

Bound: the memory bandwidth of one core.
"""

from __future__ import annotations

from accelbench.kernels.lib.cpu.array_task import numpy_task
from accelbench.kernels.reduce.reference import add_up, problem
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point


def prepare(point: Point) -> Task:
    """See `numpy_task`."""
    return numpy_task(point, problem(point), add_up)
