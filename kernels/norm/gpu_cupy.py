"""Root-mean-square norm by CuPy's array operations, one kernel for each operation.

Bound: device memory; 7 elements are moved for every 2 that are counted. Not measured yet on a GPU.
"""

from __future__ import annotations

from accelbench.kernels.lib.gpu.array_task import cupy_task
from accelbench.kernels.lib.gpu.device_code import DeviceKernel
from accelbench.kernels.norm.reference import normalize, problem
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point


def device_code() -> list[DeviceKernel]:
    return []  # the kernels are CuPy's own


def prepare(point: Point) -> Task:
    """See `cupy_task`."""
    return cupy_task(point, problem(point), normalize)
