"""Root-mean-square norm in Numba-CUDA: one block per row, which it reads once from memory and once from a cache.

Bound: device memory. Accesses are coalesced, of 16 bytes per thread; the elements before and after the aligned part are
accessed one by one. The sums of squares are added in shared memory in a fixed order, so that results are reproducible
bit for bit. On an H100 SXM Nsight Compute found 83 % of the peak at a width of 8,192.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from accelbench.kernels.lib.gpu.array_task import array_task
from accelbench.kernels.lib.gpu.device_code import DeviceKernel, NumbaKernel
from accelbench.kernels.lib.gpu.numba_cuda import cuda, float32, int64, numba_array, numba_stream, void
from accelbench.kernels.lib.gpu.wide_access import lanes, load_wide, store_wide
from accelbench.kernels.norm.reference import EPSILON, problem
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point

VENDORS = ("nvidia",)

THREADS = 256
LANES = lanes(float32)


def normalize_row(x: Any, scale: Any, out: Any, width: int) -> None:
    """Write the norm of the block's row; x and out are flat and aligned to 16 bytes."""
    partial = cuda.shared.array(THREADS, float32)
    values = cuda.local.array(LANES, float32)
    thread = cuda.threadIdx.x
    begin = cuda.blockIdx.x * width
    end = begin + width
    first = min((begin + LANES - 1) // LANES * LANES, end)
    behind = first + (end - first) // LANES * LANES
    total = float32(0)
    for i in range(first + thread * LANES, behind, THREADS * LANES):
        load_wide(values, 0, x, i)
        for k in range(LANES):
            total += values[k] * values[k]
    # On either side fewer elements than a vector are left, that is fewer than threads.
    if thread < first - begin:
        total += x[begin + thread] * x[begin + thread]
    if thread < end - behind:
        total += x[behind + thread] * x[behind + thread]
    partial[thread] = total
    half = THREADS // 2
    while half > 0:
        cuda.syncthreads()
        if thread < half:
            partial[thread] += partial[thread + half]
        half //= 2
    cuda.syncthreads()
    factor = float32(1) / math.sqrt(partial[0] / float32(width) + float32(EPSILON))
    for i in range(first + thread * LANES, behind, THREADS * LANES):
        load_wide(values, 0, x, i)
        for k in range(LANES):
            values[k] = values[k] * factor * scale[i - begin + k]
        store_wide(out, i, values, 0)
    if thread < first - begin:
        out[begin + thread] = x[begin + thread] * factor * scale[thread]
    if thread < end - behind:
        out[behind + thread] = x[behind + thread] * factor * scale[behind - begin + thread]


KERNEL = cuda.jit(normalize_row)


def device_code() -> list[DeviceKernel]:
    array = float32[::1]
    return [NumbaKernel("norm numba", KERNEL, void(array, array, array, int64), tuned=True, unit="16 bytes")]


def prepare(point: Point) -> Task:
    """See `array_task`."""

    def bind(x: Any, scale: Any, out: Any) -> Callable[[int], None]:
        rows, width = len(x) // len(scale), len(scale)
        arrays = [numba_array(array) for array in (x, scale, out)]
        return lambda stream: KERNEL[rows, THREADS, numba_stream(stream)](*arrays, width)

    return array_task(point, problem(point), bind)
