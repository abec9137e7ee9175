"""Cross-entropy and gradient by NumPy's array operations: one core, five passes over arrays that no cache holds.

Bound: memory, as far as one core can use it: 8 elements pass through it where 2 are counted.
"""

from __future__ import annotations

import numpy as np

from accelbench.kernels.softmax_xent.answers import cross_entropy
from accelbench.kernels.softmax_xent.cpu_task import make_task
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point


def prepare(point: Point) -> Task:
    """See `make_task`."""
    return make_task(point, lambda *arrays_and_threads: cross_entropy(np, *arrays_and_threads[:4]), threads=1)
