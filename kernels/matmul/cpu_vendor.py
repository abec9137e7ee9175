"""C = A·B by the BLAS library of NumPy, on all cores: OpenBLAS in its wheels, MKL or Accelerate elsewhere.

Bound: 2n³ floating-point operations by the FMA units; `peak-arith` measures that bound beside it. Memory is no bound:
with blocks in the caches, each element is fetched a few times only.

Measured share of the bound at n=2048 on two cores of an AMD Zen 3: 0.90 in float32, 0.81 in float64 (OpenBLAS 0.3.31).
"""

from __future__ import annotations

import numpy as np

from kernels.matmul.accuracy import verify_product
from profiling.benchmark import Point, Task, Verification, Work
from profiling.memory import require_memory


def prepare(point: Point) -> Task:
    """Random normal A and B; Skip where three n×n matrices would take more than half of the available memory."""
    n, dtype = int(point["n"]), np.dtype(str(point["dtype"]))
    matrix = n * n * dtype.itemsize
    require_memory(3 * matrix)
    rng = point.rng()
    a, b, c = (np.empty((n, n), dtype) for _ in range(3))

    def draw() -> None:
        for array in (a, b):
            rng.standard_normal(dtype=dtype.type, out=array)

    def run() -> None:
        np.matmul(a, b, out=c)

    def verify() -> Verification:
        draw()
        c.fill(np.nan)
        run()
        return verify_product(a, b, c, dtype.name, rng)

    draw()
    return Task(run=run, verify=verify, work=Work(flops=2 * n**3, bytes=3 * matrix))
