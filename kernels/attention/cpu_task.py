"""Task of the CPU implementations of attention: random Q, K and V, and the check of O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from accelbench.kernels.attention.accuracy import verify_attention
from accelbench.kernels.attention.shape import Attention
from accelbench.kernels.lib.cpu.arrays import spread
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.free_memory import require_memory
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Verification

Attend = Callable[[Any, Any, Any, Any], object]
"""Function that writes the attention of Q, K and V to O; all are contiguous arrays of `Attention.shape`."""


def cpu_task(point: Point, attender: Callable[[Attention, Any], Attend], copies: Callable[[Attention], int]) -> Task:
    """Return the task of `attender(attention, dtype)`, which returns an `Attend`, on random normal Q, K and V.

    `copies(attention)` is the number of additional elements that it allocates. Skip if all arrays need more than half
    of the available memory.
    """
    size, dtype = Attention.of(point), np.dtype(str(point["dtype"]))
    elements = size.heads * size.sequence * size.head
    require_memory((4 * elements + copies(size)) * dtype.itemsize)
    rng = point.rng()
    q, k, v, o = (spread(size.shape, dtype) for _ in range(4))
    attend = attender(size, dtype)

    def draw() -> None:
        for array in (q, k, v):
            rng.standard_normal(dtype=dtype.type, out=array)

    def run() -> None:
        attend(q, k, v, o)

    def verify() -> Verification:
        draw()
        o.fill(np.nan)
        run()
        return verify_attention(q, k, v, o, dtype.name, size.causal, rng)

    draw()
    return Task(run=run, verify=verify, work=size.work(dtype.itemsize))
