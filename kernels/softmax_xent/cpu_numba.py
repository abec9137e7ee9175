"""Cross-entropy and gradient on all cores, in one pass over memory, by online softmax.

Bound: memory if many cores share a memory channel; with few cores the two exponentials per element take as long. A row
is processed in blocks that fit in L1: if the maximum of a block exceeds the running maximum, the running sum is
multiplied by e^(old − new) (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018). The second
pass over a row, which writes the gradient by non-temporal stores, reads the row from L2 if it fits.

Measured on two cores of a shared AMD virtual machine with AVX-512, alternating with float32 `stream` copy, in two runs:
0.40 and 0.62 of its rate; NumPy on one core 0.1. Storing the exponentials of a row between the passes was not faster.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import prange

from accelbench.kernels.lib.cpu.array_task import array_task
from accelbench.kernels.lib.cpu.arrays import aligned_part
from accelbench.kernels.lib.cpu.simd import add_lanes, fence, fma, lanes_of, load, splat, store_past_cache
from accelbench.kernels.lib.cpu.threads import compiled, parallel
from accelbench.kernels.lib.cpu.vector_math import exponential, larger, largest_lane
from accelbench.kernels.softmax_xent.reference import problem
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point

BLOCK = 1024
"""Elements of a block: 4 KiB, so few that memory is hardly idle during their exponentials."""
ONE = np.float32(1)


@compiled
def maximum_of(x: Any, begin: int, end: int) -> Any:
    """Return the largest element of x[begin:end], by two independent chains."""
    lanes = lanes_of(x)
    top = x[begin]
    m0 = m1 = splat(top)
    whole = begin + (end - begin) // (2 * lanes) * (2 * lanes)
    for i in range(begin, whole, 2 * lanes):
        m0 = larger(load(x, i), m0)
        m1 = larger(load(x, i + lanes), m1)
    top = max(largest_lane(m0), largest_lane(m1))
    for i in range(whole, end):
        top = max(top, x[i])
    return top


@compiled
def sum_of_exponentials(x: Any, begin: int, end: int, top: Any) -> Any:
    """Return Σ e^(x − top) of x[begin:end], by two independent chains; no element exceeds `top`."""
    lanes = lanes_of(x)
    one, minus = splat(ONE), splat(-top)
    s0 = s1 = splat(ONE - ONE)
    whole = begin + (end - begin) // (2 * lanes) * (2 * lanes)
    for i in range(begin, whole, 2 * lanes):
        s0 = fma(one, exponential(fma(one, load(x, i), minus)), s0)
        s1 = fma(one, exponential(fma(one, load(x, i + lanes), minus)), s1)
    total = add_lanes(s0) + add_lanes(s1)
    for i in range(whole, end):
        total += math.exp(x[i] - top)
    return total


@compiled
def differentiate_rows(scores: Any, labels: Any, losses: Any, gradient: Any, width: int, first: int, last: int) -> None:
    """Write losses and gradient of the rows [first, last); scores and gradient are flat."""
    lanes, share = lanes_of(scores), ONE / np.float32(len(labels))
    one, zero = splat(ONE), splat(ONE - ONE)
    for row in range(first, last):
        begin, end = row * width, (row + 1) * width
        top, total = scores[begin], ONE - ONE
        for block in range(begin, end, BLOCK):
            behind = min(block + BLOCK, end)
            higher = max(top, maximum_of(scores, block, behind))
            total = total * math.exp(top - higher) + sum_of_exponentials(scores, block, behind, higher)
            top = higher
        factor = share / total
        start, stop = aligned_part(begin, end, lanes)
        for i in range(begin, start):
            gradient[i] = math.exp(scores[i] - top) * factor
        minus, factors = splat(-top), splat(factor)
        for i in range(start, stop, lanes):
            store_past_cache(gradient, i, fma(exponential(fma(one, load(scores, i), minus)), factors, zero))
        for i in range(stop, end):
            gradient[i] = math.exp(scores[i] - top) * factor
        at_label = begin + labels[row]
        losses[row] = math.log(total) - (scores[at_label] - top)
        gradient[at_label] = math.exp(scores[at_label] - top) * factor - share
    fence()


@parallel
def differentiate_on_all(scores: Any, labels: Any, losses: Any, gradient: Any, threads: int) -> None:
    """Write losses and gradient of flat rows of scores; the gradient is aligned to a vector."""
    rows = len(labels)
    width = len(scores) // rows
    for thread in prange(threads):
        begin, end = rows * thread // threads, rows * (thread + 1) // threads
        differentiate_rows(scores, labels, losses, gradient, width, begin, end)


def prepare(point: Point) -> Task:
    """See `array_task`."""
    return array_task(point, problem(point), differentiate_on_all)
