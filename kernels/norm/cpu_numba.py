"""Root-mean-square norm on all cores, each thread on rows that it touched first, in one pass over memory.

Bound: memory; every element is read once and written once by non-temporal stores. A row stays in the cache between its
sum of squares and its scaling. Measured on two cores of a shared AMD virtual machine with AVX-512, alternating with
float32 `stream` copy, in two runs: 0.75 and 1.01 of its rate with a width of 1,024, 0.56 and 0.74 with 8,192; NumPy on
one core 0.1.
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
from accelbench.kernels.norm.reference import EPSILON, problem
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point

ADDED = np.float32(EPSILON)
ONE = np.float32(1)


@compiled
def sum_of_squares(x: Any, begin: int, end: int) -> Any:
    """Return Σ x² over [begin, end), by four independent sums that hide the FMA latency."""
    lanes = lanes_of(x)
    s0 = s1 = s2 = s3 = splat(ONE - ONE)
    whole = begin + (end - begin) // (4 * lanes) * (4 * lanes)
    for i in range(begin, whole, 4 * lanes):
        s0 = fma(load(x, i), load(x, i), s0)
        s1 = fma(load(x, i + lanes), load(x, i + lanes), s1)
        s2 = fma(load(x, i + 2 * lanes), load(x, i + 2 * lanes), s2)
        s3 = fma(load(x, i + 3 * lanes), load(x, i + 3 * lanes), s3)
    total = (add_lanes(s0) + add_lanes(s1)) + (add_lanes(s2) + add_lanes(s3))
    for i in range(whole, end):
        total += x[i] * x[i]
    return total


@compiled
def normalize_rows(x: Any, scale: Any, out: Any, first: int, last: int) -> None:
    """Write the norm of the rows [first, last); x and out are flat, with rows of the length of `scale`."""
    lanes, width = lanes_of(x), len(scale)
    zero = splat(ONE - ONE)
    for row in range(first, last):
        begin, end = row * width, (row + 1) * width
        factor = ONE / math.sqrt(sum_of_squares(x, begin, end) / np.float32(width) + ADDED)
        start, stop = aligned_part(begin, end, lanes)
        for i in range(begin, start):
            out[i] = x[i] * factor * scale[i - begin]
        factors = splat(factor)
        for i in range(start, stop, lanes):
            store_past_cache(out, i, fma(fma(load(x, i), factors, zero), load(scale, i - begin), zero))
        for i in range(stop, end):
            out[i] = x[i] * factor * scale[i - begin]
    fence()


@parallel
def normalize_on_all(x: Any, scale: Any, out: Any, threads: int) -> None:
    """Write the norm of the flat rows of x to `out`, which is aligned to a vector."""
    rows = len(x) // len(scale)
    for thread in prange(threads):
        normalize_rows(x, scale, out, rows * thread // threads, rows * (thread + 1) // threads)


def prepare(point: Point) -> Task:
    """See `array_task`."""
    return array_task(point, problem(point), normalize_on_all)
