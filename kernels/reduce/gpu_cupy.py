"""The sum by CuPy, which has NVIDIA's CUB do it where input and sum are of one type: what others are compared with.

Bound: device memory; every element is read once. Not measured yet on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from accelbench.kernels.device_code import DeviceKernel
from accelbench.kernels.reduce.gpu_task import make_task
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.devices.cupy_device import cupy_library, cupy_stream
from accelbench.profiling.records.point import Point


def device_code() -> list[DeviceKernel]:
    return []  # the kernels are CuPy's and CUB's own


def prepare(point: Point) -> Task:
    """See `make_task`."""
    cupy = cupy_library()

    def bind(x: Any, out: Any) -> Callable[[int], None]:
        total = out.reshape(())  # the same memory

        def run(stream: int = 0) -> None:
            # What CUB needs beside comes from CuPy's pool, which keeps it for the next time.
            with cupy_stream(stream):
                cupy.sum(x, out=total)

        return run

    return make_task(point, bind)
