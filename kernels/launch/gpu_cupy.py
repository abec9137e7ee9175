"""Launching an empty CUDA C++ kernel through CuPy: CuPy's thin dispatcher, then the driver.

Bound: none of flops or bytes; an empty kernel takes the device about 2 µs, and the host's path to it is the rest.
"""

from __future__ import annotations

import numpy as np

from kernels.launch.counting import LAUNCHES, make_task
from profiling.benchmark import Point, Task
from profiling.cuda import library, synchronize

SOURCE = r"""
extern "C" __global__ void empty() {}
extern "C" __global__ void count(unsigned long long* launches) { atomicAdd(launches, 1ull); }
"""


def prepare(point: Point) -> Task:
    """Compile both kernels before anything is measured."""
    cupy = library("cupy")
    module = cupy.RawModule(code=SOURCE)
    empty, count = module.get_function("empty"), module.get_function("count")

    def launch_empty() -> None:
        empty((1,), (1,), ())

    def count_launches() -> int:
        counter = cupy.zeros(1, np.uint64)
        for _ in range(LAUNCHES[point["mode"]]):
            count((1,), (1,), (counter,))
        synchronize()
        return int(counter.get()[0])

    return make_task(point, launch_empty, synchronize, count_launches)
