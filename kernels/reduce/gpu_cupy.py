"""Sum by CuPy, which calls NVIDIA's CUB if input and sum have the same type; reference for other implementations.

Bound: device memory; every element is read once. On an H100 SXM 92 % of the peak; 67 % for int32, which
is summed to int64 without CUB.
"""

from __future__ import annotations

from accelbench.kernels.lib.gpu.array_task import cupy_task
from accelbench.kernels.lib.gpu.device_code import DeviceKernel
from accelbench.kernels.reduce.reference import add_up, problem
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point


def device_code() -> list[DeviceKernel]:
    return []  # the kernels are CuPy's and CUB's own


def prepare(point: Point) -> Task:
    """See `cupy_task`."""
    return cupy_task(point, problem(point), add_up)
