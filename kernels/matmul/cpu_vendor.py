"""C = A·B by the BLAS library of NumPy, on all cores: OpenBLAS in its wheels, MKL or Accelerate elsewhere.

Bound: 2n³ FLOP in the FMA units; `peak-arith` measures this bound in the same run. Memory is not the bound: with
blocking for the caches, each element is fetched only a few times.

Measured share of the bound at n=2048 on two cores of an AMD Zen 3: 0.90 in float32, 0.81 in float64 (OpenBLAS 0.3.31).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from accelbench.kernels.matmul import onednn
from accelbench.kernels.matmul.cpu_task import cpu_task
from accelbench.kernels.matmul.narrow_task import NARROW
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.machine.limiting_settings import BLAS
from accelbench.profiling.records.point import Point


def prepare(point: Point) -> Task:
    """Return the task of multiplying random matrices by `numpy.matmul`, or by oneDNN for types that NumPy lacks."""
    if point["dtype"] in NARROW:
        return onednn.prepare(point)
    if point["dtype"] not in ("float32", "float64"):
        raise Skip(f"NumPy's BLAS and oneDNN have no {point['dtype']} on CPUs: measure impl=jax")
    task = cpu_task(point, lambda _product, _dtype: lambda a, b, c: np.matmul(a, b, out=c))
    return replace(task, library=BLAS)
