"""The step of AdamW by CuPy's array operations, a kernel for each: what a user writes first.

Bound: device memory, through which 32 elements pass where 7 are counted. Not measured yet on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from accelbench.kernels.lib.gpu.device_code import DeviceKernel
from accelbench.kernels.optimizer_step.answers import step
from accelbench.kernels.optimizer_step.gpu_task import make_task
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.nvidia.cuda import cupy_stream, library
from accelbench.profiling.records.point import Point


def device_code() -> list[DeviceKernel]:
    return []  # the kernels are CuPy's own


def prepare(point: Point) -> Task:
    """See `make_task`."""
    cupy = library("cupy")

    def bind(*on_device: Any) -> Callable[[int], None]:
        arrays = [cupy.asarray(array) for array in on_device]  # the same memory

        def run(stream: int = 0) -> None:
            with cupy_stream(stream):
                step(cupy, *arrays)

        return run

    return make_task(point, bind, spare=True)
