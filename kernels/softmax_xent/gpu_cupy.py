"""Cross-entropy and gradient by CuPy's array operations, a kernel for each: what a user writes first.

Bound: device memory, through which 8 elements pass where 2 are counted. Not measured yet on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from accelbench.kernels.lib.gpu.device_code import DeviceKernel
from accelbench.kernels.softmax_xent.answers import cross_entropy
from accelbench.kernels.softmax_xent.gpu_task import make_task
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.nvidia.cuda import cupy_stream, library
from accelbench.profiling.records.point import Point


def device_code() -> list[DeviceKernel]:
    return []  # the kernels are CuPy's own


def prepare(point: Point) -> Task:
    """See `make_task`."""
    cupy = library("cupy")

    def bind(*on_device: Any) -> Callable[[int], None]:
        scores, labels, losses, gradient = map(cupy.asarray, on_device)  # the same memory
        rows = len(labels)
        arrays = (scores.reshape(rows, -1), labels, losses, gradient.reshape(rows, -1))

        def run(stream: int = 0) -> None:
            with cupy_stream(stream):
                cross_entropy(cupy, *arrays)

        return run

    return make_task(point, bind)
