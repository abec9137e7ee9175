"""The norm by CuPy's array operations, a kernel for each: what a user writes first.

Bound: device memory, through which 7 elements pass where 2 are counted. Not measured yet on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from accelbench.kernels.lib.gpu.device_code import DeviceKernel
from accelbench.kernels.norm.answers import normalize
from accelbench.kernels.norm.gpu_task import make_task
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.nvidia.cuda import cupy_stream, library
from accelbench.profiling.records.point import Point


def device_code() -> list[DeviceKernel]:
    return []  # the kernels are CuPy's own


def prepare(point: Point) -> Task:
    """See `make_task`."""
    cupy = library("cupy")

    def bind(x: Any, scale: Any, out: Any, rows: int) -> Callable[[int], None]:
        arrays = (cupy.asarray(x).reshape(rows, -1), cupy.asarray(scale), cupy.asarray(out).reshape(rows, -1))

        def run(stream: int = 0) -> None:
            with cupy_stream(stream):
                normalize(cupy, *arrays)

        return run

    return make_task(point, bind)
