"""BabelStream's five operations on all cores, each thread on a contiguous part that it touched first.

Bound: memory. Bytes are counted as in BabelStream (https://github.com/UoB-HPC/BabelStream): every element read or
written once, that is 2 arrays for copy, mul and dot and 3 for add and triad. An ordinary store would first read the
line that it overwrites, and move 4 elements for every 3 that are counted, so non-temporal stores are used.

Measured on two cores of an AMD Zen 3 virtual machine: triad 1.5× likwid-bench's `stream_avx_fma` (ordinary stores) and
at least 0.97× its `stream_mem_avx_fma` (non-temporal stores). On one core of a shared Zen 4 machine, with loops of
eight loads and eight `vmovntps zmm`: copy 1.4× `copy_mem_avx512`, triad 1.15× `stream_mem_avx512`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import prange

from accelbench.kernels.lib.cpu.arrays import aligned_empty, elements_per_array, touch
from accelbench.kernels.lib.cpu.simd import add_lanes, fence, fma, lanes_of, load, splat, store_past_cache
from accelbench.kernels.lib.cpu.threads import compiled, parallel, thread_count
from accelbench.kernels.lib.formats import UNIT_ROUNDOFF
from accelbench.kernels.lib.random_array import draw_normal
from accelbench.kernels.stream.operations import SCALAR, work_of
from accelbench.profiling.benchmark import Output, Task
from accelbench.profiling.machine.free_memory import require_memory
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.timing.verification import relative_error, verify_close

VERIFIED_AT_ONCE = 1 << 16
"""Elements verified at a time: the float64 copies of three arrays stay in a cache."""


@compiled
def copy_part(a: Any, b: Any, c: Any, scalar: Any, begin: int, end: int) -> None:
    for i in range(begin, end, lanes_of(a)):
        store_past_cache(c, i, load(a, i))
    fence()


@parallel
def copy(a: Any, b: Any, c: Any, scalar: Any, threads: int) -> None:
    part = len(a) // threads
    for thread in prange(threads):
        copy_part(a, b, c, scalar, thread * part, (thread + 1) * part)


@compiled
def mul_part(a: Any, b: Any, c: Any, scalar: Any, begin: int, end: int) -> None:
    # Memory is the bound, so the additional addition of the FMA takes no time.
    factor, zero = splat(scalar), splat(scalar - scalar)
    for i in range(begin, end, lanes_of(a)):
        store_past_cache(b, i, fma(factor, load(c, i), zero))
    fence()


@parallel
def mul(a: Any, b: Any, c: Any, scalar: Any, threads: int) -> None:
    part = len(a) // threads
    for thread in prange(threads):
        mul_part(a, b, c, scalar, thread * part, (thread + 1) * part)


@compiled
def add_part(a: Any, b: Any, c: Any, scalar: Any, begin: int, end: int) -> None:
    one = splat(scalar / scalar)
    for i in range(begin, end, lanes_of(a)):
        store_past_cache(c, i, fma(one, load(a, i), load(b, i)))
    fence()


@parallel
def add(a: Any, b: Any, c: Any, scalar: Any, threads: int) -> None:
    part = len(a) // threads
    for thread in prange(threads):
        add_part(a, b, c, scalar, thread * part, (thread + 1) * part)


@compiled
def triad_part(a: Any, b: Any, c: Any, scalar: Any, begin: int, end: int) -> None:
    factor = splat(scalar)
    for i in range(begin, end, lanes_of(a)):
        store_past_cache(a, i, fma(factor, load(c, i), load(b, i)))
    fence()


@parallel
def triad(a: Any, b: Any, c: Any, scalar: Any, threads: int) -> None:
    part = len(a) // threads
    for thread in prange(threads):
        triad_part(a, b, c, scalar, thread * part, (thread + 1) * part)


@compiled
def dot_part(a: Any, b: Any, begin: int, end: int) -> Any:
    """Return the sum of a thread's products, by four independent sums that hide the FMA latency."""
    lanes = lanes_of(a)
    s0 = s1 = s2 = s3 = splat(a[begin] - a[begin])
    for i in range(begin, end, 4 * lanes):
        s0 = fma(load(a, i), load(b, i), s0)
        s1 = fma(load(a, i + lanes), load(b, i + lanes), s1)
        s2 = fma(load(a, i + 2 * lanes), load(b, i + 2 * lanes), s2)
        s3 = fma(load(a, i + 3 * lanes), load(b, i + 3 * lanes), s3)
    return (add_lanes(s0) + add_lanes(s1)) + (add_lanes(s2) + add_lanes(s3))


@parallel
def dot(a: Any, b: Any, partial: Any) -> None:
    part = len(a) // len(partial)
    for thread in prange(len(partial)):
        partial[thread] = dot_part(a, b, thread * part, (thread + 1) * part)


def prepare(point: Point) -> Task:
    """Prepare three arrays; Skip if they need more than half of the available memory."""
    op, dtype = str(point["op"]), np.dtype(str(point["dtype"]))
    threads = thread_count()
    n = elements_per_array(dtype.itemsize, threads)
    require_memory(3 * n * dtype.itemsize)
    arrays = [aligned_empty(n, dtype) for _ in range(3)]
    for array in arrays:
        touch(array, dtype.type(1), threads)
    rng = point.rng()
    prepared = DotProduct(arrays, rng, threads) if op == "dot" else Elementwise(op, arrays, rng, threads)
    metrics = {
        "array": Metric(n * dtype.itemsize / 2**20, "MiB"),
        "threads": Metric(threads),
    }
    return Task(
        run=prepared.run,
        verify=prepared.verify,
        work=work_of(op, n, dtype.itemsize),
        metrics=lambda _seconds: metrics,
        output=Output(read=lambda: (prepared.result,), poison=lambda: prepared.result.fill(np.nan)),
    )


class Elementwise:
    """Operation copy, mul, add or triad: one array is computed from the others, which contain random numbers."""

    def __init__(self, op: str, arrays: list[Any], rng: np.random.Generator, threads: int) -> None:
        self.arrays, self.threads = arrays, threads
        self.scalar = arrays[0].dtype.type(SCALAR)
        self.kernel, self.written, self.expected = OPERATIONS[op]
        self.result = arrays[self.written]
        for position, array in enumerate(arrays):
            if position != self.written:
                draw_normal(rng, array.dtype).fill(array)

    def run(self) -> None:
        self.kernel(*self.arrays, self.scalar, self.threads)

    def verify(self) -> Verification:
        """Poison the result, run once, and check every element against float64.

        The product by the scalar and the sum have an error of at most one unit roundoff each, here and in a float64
        reference, relative to the magnitudes of the terms: 4 in total.
        """
        self.result.fill(np.nan)
        self.run()
        largest = 0.0
        for begin in range(0, len(self.arrays[0]), VERIFIED_AT_ONCE):
            a, b, c = (array[begin : begin + VERIFIED_AT_ONCE].astype(np.float64) for array in self.arrays)
            terms = self.expected(a, b, c, np.float64(self.scalar))
            found = (a, b, c)[self.written]
            scale = np.sum(np.abs(terms), axis=0)
            largest = max(largest, relative_error(found, np.sum(terms, axis=0), scale))
        tolerance = 4 * UNIT_ROUNDOFF[self.arrays[0].dtype.name]
        return verify_close(largest, 0.0, tolerance, "float64, every element", scale=1.0)


class DotProduct:
    """Operation dot, Σ a·b, with one partial sum per thread.

    The inputs are uniform in [1, 2), so that terms do not cancel and a missing part fails the check.
    """

    def __init__(self, arrays: list[Any], rng: np.random.Generator, threads: int) -> None:
        self.a, self.b = arrays[:2]
        for array in (self.a, self.b):
            rng.random(dtype=array.dtype.type, out=array)
            array += 1
        self.result = np.empty(threads, self.a.dtype)

    def run(self) -> float:
        dot(self.a, self.b, self.result)
        return float(self.result.sum(dtype=np.float64))

    def verify(self) -> Verification:
        """Poison the partial sums, run once, and check the sum against float64 sums of short pieces.

        For k terms of one sign, the rounding error of step i is at most u·i/k of the final sum, independent of the
        others. Together they are u·√(Σi²)/k = u·√(k/3), and four times that is allowed; k is at most the part of a
        thread. In float64 a single missing element exceeds this tolerance.
        """
        self.result.fill(np.nan)
        found = self.run()
        pieces = range(0, len(self.a), VERIFIED_AT_ONCE)
        expected = math.fsum(
            float(
                np.sum(
                    self.a[i : i + VERIFIED_AT_ONCE].astype(np.float64)
                    * self.b[i : i + VERIFIED_AT_ONCE].astype(np.float64)
                )
            )
            for i in pieces
        )
        k = len(self.a) // len(self.result)
        tolerance = 4 * UNIT_ROUNDOFF[self.a.dtype.name] * math.sqrt(k / 3)
        return verify_close(found, expected, tolerance, "float64 sum of all products")


Terms = Callable[[Any, Any, Any, Any], list[Any]]
OPERATIONS: dict[str, tuple[Any, int, Terms]] = {
    "copy": (copy, 2, lambda a, b, c, s: [a]),
    "mul": (mul, 1, lambda a, b, c, s: [s * c]),
    "add": (add, 2, lambda a, b, c, s: [a, b]),
    "triad": (triad, 0, lambda a, b, c, s: [b, s * c]),
}
"""Kernel, index of the array that it writes, and terms of the expected sum."""
