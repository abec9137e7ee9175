"""Sum on all cores, each thread over a contiguous part that it touched first, with eight sums in vector registers.

Bound: memory; every element is read once. Measured on two cores of an AMD Zen 3 virtual machine: 31 GB/s for each of
the three types, 0.9–1.1× likwid-bench's `load_avx`, run within minutes; NumPy on one core 8–19 GB/s.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from accelbench.kernels.lib.cpu.array_task import array_task
from accelbench.kernels.lib.cpu.sums import sum_vectors
from accelbench.kernels.lib.cpu.threads import compiled, parallel
from accelbench.kernels.reduce.reference import problem
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point


@compiled
def sum_integers(array: Any, begin: int, end: int) -> Any:
    """Return the sum of array[begin:end]; LLVM vectorises the loop, because integer sums may be reordered."""
    total = 0
    for i in range(np.uint64(begin), np.uint64(end)):  # the wraparound of signed indices prevents vectorisation
        total += array[i]
    return total


@parallel
def sum_vectors_on_all(array: Any, partial: Any) -> None:
    part = len(array) // len(partial)
    for thread in prange(len(partial)):
        partial[thread] = sum_vectors(array, thread * part, (thread + 1) * part, 1)


@parallel
def sum_integers_on_all(array: Any, partial: Any) -> None:
    part = len(array) // len(partial)
    for thread in prange(len(partial)):
        partial[thread] = sum_integers(array, thread * part, (thread + 1) * part)


def sum_on_all(array: Any, threads: int) -> Any:
    """Return the sum of a one-dimensional array, divided into equal parts for the threads."""
    if np.issubdtype(array.dtype, np.floating):
        partial, run = np.empty(threads, array.dtype), sum_vectors_on_all
    else:
        partial, run = np.empty(threads, np.int64), sum_integers_on_all
    run(array, partial)
    return partial.sum()


def prepare(point: Point) -> Task:
    """See `array_task`."""

    def kernel(x: Any, out: Any, threads: int) -> None:
        out[0] = sum_on_all(x, threads)

    return array_task(point, problem(point), kernel)
