"""The step of AdamW by CuPy's array operations, a kernel for each: what a user writes first.

Bound: device memory, through which 32 elements pass where 7 are counted. Not measured yet on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from accelbench.kernels.device_code import DeviceKernel
from accelbench.kernels.optimizer_step.answers import step
from accelbench.kernels.optimizer_step.gpu_task import make_task
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.devices.cupy_device import cupy_library, cupy_stream
from accelbench.profiling.records.point import Point


def device_code() -> list[DeviceKernel]:
    return []  # the kernels are CuPy's own


def prepare(point: Point) -> Task:
    """See `make_task`."""
    cupy = cupy_library()

    def bind(*arrays: Any) -> Callable[[int], None]:
        def run(stream: int = 0) -> None:
            with cupy_stream(stream):
                step(cupy, *arrays)

        return run

    return make_task(point, bind, spare=True)
