"""Task of the CPU implementations of the matrix product: matrices, and the check of the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from accelbench.kernels.lib.cpu.arrays import spread
from accelbench.kernels.matmul.accuracy import verify_product
from accelbench.kernels.matmul.shapes import Product
from accelbench.profiling.benchmark import Output, Task
from accelbench.profiling.machine.free_memory import require_memory
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Verification
from accelbench.profiling.records.work import Work

Multiply = Callable[[Any, Any, Any], object]
"""Function that writes A·B to C, for contiguous arrays A (batch, m, k), B (batch, k, n) and C (batch, m, n)."""


def cpu_task(point: Point, multiplier: Callable[[Product, Any], Multiply]) -> Task:
    """Return the task of multiplying random normal matrices by `multiplier(product, dtype)`, which returns a
    `Multiply`.

    Skip if the matrices need more than half of the available memory.
    """
    product, dtype = Product.of(point), np.dtype(str(point["dtype"]))
    batch, m, n, k = product.batch, product.m, product.n, product.k
    size = product.bytes(dtype.itemsize)
    require_memory(size)
    rng = point.rng()
    a, b, c = (spread((batch, *shape), dtype) for shape in ((m, k), (k, n), (m, n)))
    multiply = multiplier(product, dtype)

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
    output = Output(read=lambda: (c,), poison=lambda: c.fill(np.nan))
    return Task(run=run, verify=verify, work=Work(flops=product.flops, bytes=size), output=output)
