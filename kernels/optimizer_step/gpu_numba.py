"""Step of AdamW in Numba-CUDA, in one kernel with 16-byte accesses.

Bound: device memory. A thread has one load of 16 bytes of each of the four arrays in flight: 64 KiB per multiprocessor
with four blocks of 256 threads. Not measured yet on a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from accelbench.kernels.lib.gpu.array_task import array_task
from accelbench.kernels.lib.gpu.device_code import DeviceKernel, NumbaKernel
from accelbench.kernels.lib.gpu.numba_cuda import cuda, float32, numba_array, numba_stream, void
from accelbench.kernels.lib.gpu.wide_access import lanes, load_wide, store_wide
from accelbench.kernels.optimizer_step.reference import (
    BETA_1,
    BETA_2,
    CORRECTION_1,
    CORRECTION_2,
    DECAY,
    EPSILON,
    RATE,
    problem,
)
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.nvidia.cuda import attribute
from accelbench.profiling.records.point import Point

VENDORS = ("nvidia",)

THREADS = 256
BLOCKS_PER_MULTIPROCESSOR = 4
"""Blocks per multiprocessor; all are resident with up to 64 registers per thread."""
LANES = lanes(float32)
KEEP_1, TAKE_1, KEEP_2, TAKE_2 = (np.float32(x) for x in (BETA_1, 1 - BETA_1, BETA_2, 1 - BETA_2))
KEPT, STRIDE, UNBIAS, ADDED = (
    np.float32(x) for x in (1 - RATE * DECAY, RATE / CORRECTION_1, 1 / CORRECTION_2, EPSILON)
)


@cuda.jit(device=True)
def stepped(p: Any, g: Any, m: Any, v: Any) -> Any:
    """Return a parameter, mean gradient and mean square after the step."""
    mean = KEEP_1 * m + TAKE_1 * g
    square = KEEP_2 * v + TAKE_2 * (g * g)
    return KEPT * p - STRIDE * mean / (math.sqrt(UNBIAS * square) + ADDED), mean, square


def step(parameter: Any, gradient: Any, mean: Any, square: Any) -> None:
    """Do the step in place; the arrays are aligned to 16 bytes."""
    p = cuda.local.array(LANES, float32)
    g = cuda.local.array(LANES, float32)
    m = cuda.local.array(LANES, float32)
    v = cuda.local.array(LANES, float32)
    vectors = parameter.shape[0] // LANES
    i = cuda.grid(1)
    while i < vectors:
        load_wide(p, 0, parameter, i * LANES)
        load_wide(g, 0, gradient, i * LANES)
        load_wide(m, 0, mean, i * LANES)
        load_wide(v, 0, square, i * LANES)
        for k in range(LANES):
            p[k], m[k], v[k] = stepped(p[k], g[k], m[k], v[k])
        store_wide(parameter, i * LANES, p, 0)
        store_wide(mean, i * LANES, m, 0)
        store_wide(square, i * LANES, v, 0)
        i += cuda.gridsize(1)
    i = vectors * LANES + cuda.grid(1)
    if i < parameter.shape[0]:
        parameter[i], mean[i], square[i] = stepped(parameter[i], gradient[i], mean[i], square[i])


KERNEL = cuda.jit(launch_bounds=(THREADS, BLOCKS_PER_MULTIPROCESSOR))(step)


def device_code() -> list[DeviceKernel]:
    array = float32[::1]
    return [NumbaKernel("optimizer-step numba", KERNEL, void(*[array] * 4), tuned=True, unit="4 × 16 bytes")]


def prepare(point: Point) -> Task:
    """See `array_task`."""
    blocks = BLOCKS_PER_MULTIPROCESSOR * attribute("MultiProcessorCount")

    def bind(*on_device: Any) -> Callable[[int], None]:
        arrays = [numba_array(array) for array in on_device]
        return lambda stream: KERNEL[blocks, THREADS, numba_stream(stream)](*arrays)

    return array_task(point, problem(), bind)
