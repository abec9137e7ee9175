"""Task of the GPU implementations of stream: arrays on the device, and the check of every element.

With the inputs x and y: copy out = x; mul out = s·x; add out = x + y; triad out = x + s·y; dot out = Σ x·y.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from accelbench.kernels.lib.exact import LARGEST, exact_sum, verify_sum
from accelbench.kernels.lib.gpu.arrays import array_length, poison, put
from accelbench.kernels.lib.random_array import PART, RandomArray, draw_normal, draw_whole
from accelbench.kernels.stream.accuracy import verify_elements
from accelbench.kernels.stream.operations import READS_Y, work_of
from accelbench.profiling.benchmark import Output, Task
from accelbench.profiling.devices.cupy_device import cupy_library, synchronize
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification

DOWNLOADED = 256 * PART
"""Elements of a result copied to the host at a time, up to 128 MiB."""

Bind = Callable[[Any, Any, Any, Any], Callable[[int], object]]


def make_task(point: Point, bind: Bind, *, blocks: int = 1, threads: int = 1) -> Task:
    """Return the task of the operation on random arrays; `bind(x, y, sums, out)` returns `run(stream)`.

    The arrays are CuPy arrays. `out` has the length of x, or one element for dot. `sums` has one element per block of
    the kernel of dot, which has `blocks` blocks of `threads` threads. dot is checked twice: exactly, on whole numbers
    without rounding, and then on the measured normal numbers. Skip if three arrays do not fit in memory.
    """
    cupy, op, dtype = cupy_library(), str(point["op"]), np.dtype(str(point["dtype"]))
    length = array_length(dtype.itemsize, arrays=3, moved=2)
    x, y = (cupy.empty(length, dtype) for _ in range(2))
    sums = cupy.empty(blocks, dtype)
    out = cupy.empty(1 if op == "dot" else length, dtype)
    run, rng = bind(x, y, sums, out), point.rng()

    def poison_results() -> None:
        for array in (sums, out):
            poison(array)
        synchronize()

    def run_on(first: RandomArray, second: RandomArray) -> None:
        put(first, x)
        put(second, y)
        poison_results()
        run(0)
        synchronize()

    def verify() -> Verification:
        if op == "dot" and not (exact := verify_exactly()).passed:
            return exact
        drawn = draw_normal(rng, dtype), draw_normal(rng, dtype)
        run_on(*drawn)
        if op == "dot":
            found, chain = float(out.get()[0]), longest_chain(length, blocks, threads)
            return verify_dot(dtype, pairs(*drawn, length), found, chain)
        return verify_elements(op, dtype, results_of(op, *drawn, out))

    def verify_exactly() -> Verification:
        # With normal numbers the tolerance of a long sum could hide a missing product; with whole numbers it is zero.
        drawn = draw_whole(rng, LARGEST), draw_whole(rng, 1)
        run_on(*drawn)
        return verify_sum(exact_sum(pairs(*drawn, length)), out.get()[0])

    for inputs in (x, y):
        put(draw_normal(rng, dtype), inputs)
    array = Metric(length * dtype.itemsize / 2**20, "MiB")
    work = work_of(op, length, dtype.itemsize)
    output = Output(read=lambda: (out,), poison=poison_results)
    return Task(run=run, verify=verify, work=work, metrics=lambda _seconds: {"array": array}, output=output)


def pairs(x: RandomArray, y: RandomArray, length: int) -> Iterator[tuple[Any, Any]]:
    """Return (x, y) in parts of PART elements."""
    return zip(x.parts(0, length), y.parts(0, length), strict=True)


def results_of(op: str, x: RandomArray, y: RandomArray, out: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield (x, y, out) in parts of PART elements; `out` is a CuPy array, and y is None for copy and mul."""
    for begin in range(0, len(out), DOWNLOADED):
        end = min(begin + DOWNLOADED, len(out))
        host = out[begin:end].get()
        second = y.parts(begin, end) if op in READS_Y else None
        for i, part in enumerate(x.parts(begin, end)):
            yield part, second and next(second), host[i * PART : i * PART + len(part)]


def longest_chain(length: int, blocks: int, threads: int) -> int:
    """Return the maximum number of roundings of a term in a dot product by two kernels, each a loop and a tree.

    A thread of the first kernel adds `length / (blocks·threads)` products and up to 16 bytes more. The second kernel is
    one block, which adds the sums of the blocks.
    """
    tree = threads.bit_length()
    return 1 + (-(-length // (blocks * threads)) + 4) + tree + -(-blocks // threads) + tree


def verify_dot(dtype: Any, parts: Iterable[tuple[Any, Any]], found: float, longest_chain: int) -> Verification:
    """Check a dot product against float64, relative to Σ|x·y|, given (x, y) in parts.

    A term is rounded at most `longest_chain` times (as a product, and in additions), each time by at most u relative to
    its value, so the error is at most `longest_chain`·u·Σ|x·y| (Higham, Accuracy and Stability, 4.2).
    """
    expected = magnitude = 0.0
    for x, y in parts:
        products = x.astype(np.float64) * y
        expected += float(products.sum())
        magnitude += float(np.abs(products).sum())
    error = abs(found - expected) / magnitude
    limit = longest_chain * float(np.finfo(dtype).eps) / 2
    return Verification(
        passed=error <= limit,
        method="float64 dot product",
        error=error if np.isfinite(error) else float(np.finfo(np.float64).max),
        tolerance=limit,
    )
