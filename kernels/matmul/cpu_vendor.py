"""C = A·B by the BLAS library of NumPy, on all cores: OpenBLAS in its wheels, MKL or Accelerate elsewhere.

Bound: 2n³ floating-point operations by the FMA units; `peak-arith` measures that bound beside it. Memory is no bound:
with blocks in the caches, each element is fetched a few times only.

Measured share of the bound at n=2048 on two cores of an AMD Zen 3: 0.90 in float32, 0.81 in float64 (OpenBLAS 0.3.31).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from accelbench.kernels.matmul import onednn
from accelbench.kernels.matmul.cpu_task import cpu_task
from accelbench.kernels.matmul.narrow_task import NARROW
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.held_back import BLAS
from accelbench.profiling.records.point import Point


def prepare(point: Point) -> Task:
    """Prepare random matrices, which `numpy.matmul` multiplies, or oneDNN where NumPy has no such type."""
    if point["dtype"] in NARROW:
        return onednn.prepare(point)
    task = cpu_task(point, lambda _product, _dtype: lambda a, b, c: np.matmul(a, b, out=c))
    return replace(task, library=BLAS)
