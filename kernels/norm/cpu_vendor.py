"""The norm by NumPy's array operations: one core, four passes over arrays that no cache holds.

Bound: memory, as far as one core can use it: 7 elements pass through it where 2 are counted.
"""

from __future__ import annotations

import numpy as np

from accelbench.kernels.norm.answers import normalize
from accelbench.kernels.norm.cpu_task import make_task
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point


def prepare(point: Point) -> Task:
    """See `make_task`."""
    return make_task(point, lambda x, scale, out, threads: normalize(np, x, scale, out), threads=1)
