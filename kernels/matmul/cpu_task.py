"""What both CPU implementations of matmul do around the product: matrices, and the check of the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kernels.matmul.accuracy import verify_product
from profiling.benchmark import Point, Task, Verification, Work
from profiling.memory import require_memory

Multiply = Callable[[Any, Any, Any], object]
"""Writes A·B into C, for contiguous n×n arrays (A, B, C)."""


def cpu_task(point: Point, multiplier: Callable[[int, Any], Multiply]) -> Task:
    """The task of multiplying random normal matrices by what `multiplier(n, dtype)` makes.

    Skip where three n×n matrices would take more than half of the available memory.
    """
    n, dtype = int(point["n"]), np.dtype(str(point["dtype"]))
    matrix = n * n * dtype.itemsize
    require_memory(3 * matrix)
    rng = point.rng()
    a, b, c = (np.empty((n, n), dtype) for _ in range(3))
    multiply = multiplier(n, dtype)

    def draw() -> None:
        for array in (a, b):
            rng.standard_normal(dtype=dtype.type, out=array)

    def run() -> None:
        multiply(a, b, c)

    def verify() -> Verification:
        draw()
        c.fill(np.nan)
        run()
        return verify_product(a, b, c, dtype.name, rng)

    draw()
    return Task(run=run, verify=verify, work=Work(flops=2 * n**3, bytes=3 * matrix))
