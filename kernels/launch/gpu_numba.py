"""Launch of an empty Numba-CUDA kernel: Numba's Python dispatcher, then the driver.

Bound: neither FLOP nor bytes. An empty kernel takes about 2 µs on the device; the rest is the host's launch path. Not
measured yet on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from accelbench.kernels.launch.counting import Kernels, Launch, make_task
from accelbench.kernels.lib.gpu.device_code import DeviceKernel, NumbaKernel
from accelbench.kernels.lib.gpu.numba_cuda import cuda, int64, numba_stream, void
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.nvidia.cuda import synchronize
from accelbench.profiling.records.point import Point

VENDORS = ("nvidia",)


@cuda.jit
def empty() -> None:
    pass


@cuda.jit
def count(launches: Any) -> None:
    cuda.atomic.add(launches, 0, 1)


def device_code() -> list[DeviceKernel]:
    return [
        NumbaKernel("launch numba empty", empty, void(), tuned=True),
        NumbaKernel("launch numba count", count, void(int64[::1]), tuned=True),
    ]


def launches_of(kernel: Any, *args: Any) -> Callable[[int], Launch]:
    """Return a function that configures the kernel for a stream once, as programs with many launches do."""

    def on(stream: int) -> Launch:
        configured = kernel[1, 1, numba_stream(stream)]
        return lambda: configured(*args)

    return on


def prepare(point: Point) -> Task:
    """Return the point's task, with a counter in device memory."""
    counter = cuda.to_device(np.zeros(1, np.int64))

    def take_count() -> int:
        synchronize()
        counted = int(counter.copy_to_host()[0])
        counter.copy_to_device(np.zeros(1, np.int64))
        return counted

    return make_task(point, Kernels(launches_of(empty), launches_of(count, counter), take_count))
