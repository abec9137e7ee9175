"""Cross-entropy and gradient in Numba-CUDA: one block per row, by online softmax.

Bound: device memory. Each thread reads 16 bytes at a time; if their maximum exceeds its running maximum, it multiplies
its running sum by e^(old − new) (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018). The block
combines maxima and sums in shared memory. The second pass over a row, which writes the gradient, hits L2 if it holds
the rows of all resident blocks: two per multiprocessor, 34 MB on an H100 with 32,000 scores. Otherwise the row is read
from memory a second time, which is not counted. With 512 threads, two blocks fit on a multiprocessor of any compute
capability, and each thread has registers for the loads of several iterations. Not measured yet on a GPU.

`fastmath` makes an exponential a multiplication and `ex2.approx` (maximum relative error 2^-22.5): the loops have 7
instructions for each of their exponentials on 9.0 instead of 19, which would have taken longer than the memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from accelbench.kernels.lib.gpu.array_task import array_task
from accelbench.kernels.lib.gpu.device_code import DeviceKernel, NumbaKernel
from accelbench.kernels.lib.gpu.numba_cuda import (
    cuda,
    float32,
    int32,
    int64,
    numba_array,
    numba_stream,
    void,
)
from accelbench.kernels.lib.gpu.wide_access import lanes, load_wide, store_wide
from accelbench.kernels.softmax_xent.reference import problem
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point

VENDORS = ("nvidia",)

THREADS = 512
BLOCKS_PER_MULTIPROCESSOR = 2
LANES = lanes(float32)
LOWEST = float(np.finfo(np.float32).min)
"""Maximum of zero elements: finite, so that the difference of two such maxima is 0 and not NaN."""


def differentiate_row(scores: Any, labels: Any, losses: Any, gradient: Any, width: int) -> None:
    """Write the loss and the gradient of the block's row; scores and gradient are aligned to 16 bytes."""
    tops = cuda.shared.array(THREADS, float32)
    sums = cuda.shared.array(THREADS, float32)
    values = cuda.local.array(LANES, float32)
    thread = cuda.threadIdx.x
    row = cuda.blockIdx.x
    begin = row * width
    end = begin + width
    first = min((begin + LANES - 1) // LANES * LANES, end)
    behind = first + (end - first) // LANES * LANES
    top, total = float32(LOWEST), float32(0)
    for i in range(first + thread * LANES, behind, THREADS * LANES):
        load_wide(values, 0, scores, i)
        higher = max(top, max(max(values[0], values[1]), max(values[2], values[3])))
        total *= math.exp(top - higher)
        for k in range(LANES):
            total += math.exp(values[k] - higher)
        top = higher
    # On either side fewer elements than a vector are left, that is fewer than threads.
    for part in range(2):
        i = begin + thread if part == 0 else behind + thread
        if i < (first if part == 0 else end):
            higher = max(top, scores[i])
            total = total * math.exp(top - higher) + math.exp(scores[i] - higher)
            top = higher
    tops[thread], sums[thread] = top, total
    half = THREADS // 2
    while half > 0:
        cuda.syncthreads()
        if thread < half:
            other = thread + half
            higher = max(tops[thread], tops[other])
            joined = sums[thread] * math.exp(tops[thread] - higher) + sums[other] * math.exp(tops[other] - higher)
            tops[thread], sums[thread] = higher, joined
        half //= 2
    cuda.syncthreads()
    top, total = tops[0], sums[0]
    share = float32(1) / float32(losses.shape[0])
    factor = share / total
    label = begin + labels[row]
    for i in range(first + thread * LANES, behind, THREADS * LANES):
        load_wide(values, 0, scores, i)
        for k in range(LANES):
            values[k] = math.exp(values[k] - top) * factor
            if i + k == label:
                values[k] -= share
        store_wide(gradient, i, values, 0)
    for part in range(2):
        i = begin + thread if part == 0 else behind + thread
        if i < (first if part == 0 else end):
            gradient[i] = math.exp(scores[i] - top) * factor - (share if i == label else float32(0))
    if thread == 0:
        losses[row] = math.log(total) - (scores[label] - top)


KERNEL = cuda.jit(fastmath=True, launch_bounds=(THREADS, BLOCKS_PER_MULTIPROCESSOR))(differentiate_row)


def device_code() -> list[DeviceKernel]:
    array = float32[::1]
    signature = void(array, int32[::1], array, array, int64)
    return [NumbaKernel("softmax-xent numba", KERNEL, signature, tuned=True, unit="16 bytes")]


def prepare(point: Point) -> Task:
    """See `array_task`."""
    width = int(point["vocabulary"])

    def bind(scores: Any, labels: Any, losses: Any, gradient: Any) -> Callable[[int], None]:
        rows, arrays = len(labels), [numba_array(array) for array in (scores, labels, losses, gradient)]
        return lambda stream: KERNEL[rows, THREADS, numba_stream(stream)](*arrays, width)

    return array_task(point, problem(point), bind)
