"""Launch of an empty CUDA C++ kernel through CuPy: CuPy's thin dispatcher, then the driver.

Bound: neither FLOP nor bytes. An empty kernel takes about 2 µs on the device; the rest is the host's launch path. Not
measured yet on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from accelbench.kernels.launch.counting import Kernels, Launch, make_task
from accelbench.kernels.lib.gpu.device_code import CudaKernel, DeviceKernel
from accelbench.profiling.benchmark import Task
from accelbench.profiling.devices.cupy_device import cupy_library, synchronize
from accelbench.profiling.records.point import Point

SOURCE = r"""
extern "C" __global__ void empty() {}
extern "C" __global__ void count(unsigned long long* launches) { atomicAdd(launches, 1ull); }
"""


def device_code() -> list[DeviceKernel]:
    return [CudaKernel(f"launch cupy {entry}", entry, SOURCE, tuned=True) for entry in ("empty", "count")]


def launches_of(kernel: Any, *args: Any) -> Callable[[int], Launch]:
    """Return a function that ignores the stream handle: CuPy launches on its current stream."""
    return lambda _stream: lambda: kernel((1,), (1,), args)


def prepare(point: Point) -> Task:
    """Return the point's task; both kernels are compiled here."""
    cupy = cupy_library()
    module = cupy.RawModule(code=SOURCE)
    empty, count = module.get_function("empty"), module.get_function("count")
    counter = cupy.empty(1, np.uint64)

    def take_count() -> int:
        synchronize()
        counted = int(counter.get()[0])
        counter.set(np.zeros(1, np.uint64))
        synchronize()
        return counted

    return make_task(point, Kernels(launches_of(empty), launches_of(count, counter), take_count))
