"""Launching an empty Numba-CUDA kernel: Numba's Python dispatcher, then the driver.

Bound: none of flops or bytes; an empty kernel takes the device about 2 µs, and the host's path to it is the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from kernels.launch.counting import LAUNCHES, make_task
from profiling.benchmark import Point, Task
from profiling.cuda import synchronize


@cuda.jit
def empty() -> None:
    pass


@cuda.jit
def count(launches: Any) -> None:
    cuda.atomic.add(launches, 0, 1)


def prepare(point: Point) -> Task:
    """Configure the kernel once, as a program that launches it often does."""
    launch_empty = empty[1, 1]

    def count_launches() -> int:
        counter = cuda.to_device(np.zeros(1, np.int64))
        for _ in range(LAUNCHES[point["mode"]]):
            count[1, 1](counter)
        synchronize()
        return int(counter.copy_to_host()[0])

    return make_task(point, launch_empty, synchronize, count_launches)
