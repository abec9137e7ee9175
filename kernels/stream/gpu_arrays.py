"""What the GPU implementations of stream share: how long the arrays are, and what an operation must yield.

On inputs x and y: copy out = x · mul out = s·x · add out = x + y · triad out = x + s·y · dot Σ x·y.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.stream.operations import SCALAR
from profiling.benchmark import Verification
from profiling.cuda import attribute, require_device_memory

ACCESS_BYTES = 16
"""The widest access of one thread; an array is a multiple of it."""
MIN_BYTES = 256 * 1024**2
CACHES = 4
"""Arrays this many times the L2 cache leave little of one pass for the next to find."""
CHUNK = 1 << 22
"""Elements verified at once: bounds the float64 copies."""


def array_length(itemsize: int) -> int:
    """Elements of an array, 256 MiB or four L2 caches if that is more; Skip if three exceed half of the free memory."""
    size = max(MIN_BYTES, CACHES * attribute("L2CacheSize"))
    require_device_memory(3 * size)
    return size // ACCESS_BYTES * ACCESS_BYTES // itemsize


def draw(rng: np.random.Generator, length: int, dtype: Any) -> tuple[Any, Any]:
    """Standard normal x and y."""
    x, y = (rng.standard_normal(length, dtype=dtype) for _ in range(2))
    return x, y


def verify_elements(op: str, x: Any, y: Any, out: Any) -> Verification:
    """Every element of copy, mul, add or triad against float64.

    The error of an element is measured against the sum of the magnitudes added. Each operation rounds once, by at
    most u = ε/2 of its result; triad rounds the product and the sum, 2u (or once, fused), and SCALAR itself was
    rounded to the type, which adds u to mul and triad. A copy must be exact.
    """
    limit = {"copy": 0, "mul": 2, "add": 1, "triad": 3}[op] * float(np.finfo(x.dtype).eps) / 2
    worst = 0.0
    for i in range(0, len(x), CHUNK):
        a, b = x[i : i + CHUNK].astype(np.float64), y[i : i + CHUNK].astype(np.float64)
        terms = {"copy": (a,), "mul": (SCALAR * a,), "add": (a, b), "triad": (a, SCALAR * b)}[op]
        scale = np.maximum(sum(np.abs(t) for t in terms), np.finfo(x.dtype).tiny)
        error = np.abs(out[i : i + CHUNK].astype(np.float64) - sum(terms)) / scale
        # NaN, an element that was not written, counts as the largest error there is.
        worst = max(worst, float(np.max(np.where(np.isnan(error), np.finfo(np.float64).max, error))))
    # The float64 reference rounds too, which shows where the type is float64 itself.
    reference = 3 * float(np.finfo(np.float64).eps) / 2 if op != "copy" else 0.0
    return Verification(
        passed=worst <= limit + reference, method="float64, every element", error=worst, tolerance=limit + reference
    )


def longest_chain(length: int, blocks: int, threads: int) -> int:
    """Roundings that a product passes on its way into a dot product by two kernels, each a loop and then a tree.

    A thread of the first adds up `length / (blocks·threads)` products, and up to 16 bytes of them more; the second
    kernel is one block that adds up the sums of the blocks.
    """
    tree = threads.bit_length()
    return 1 + (-(-length // (blocks * threads)) + 4) + tree + -(-blocks // threads) + tree


def verify_dot(x: Any, y: Any, found: float, longest_chain: int) -> Verification:
    """A dot product against float64, relative to Σ|x·y|.

    A product passes through at most `longest_chain` roundings (its own and the additions after it), each by at most
    u of what it has become, so the error is at most `longest_chain`·u·Σ|x·y| (Higham, Accuracy and Stability, 4.2).
    """
    expected = magnitude = 0.0
    for i in range(0, len(x), CHUNK):
        products = x[i : i + CHUNK].astype(np.float64) * y[i : i + CHUNK]
        expected += float(products.sum())
        magnitude += float(np.abs(products).sum())
    error = abs(found - expected) / magnitude
    limit = longest_chain * float(np.finfo(x.dtype).eps) / 2
    return Verification(
        passed=error <= limit,
        method="float64 dot product",
        error=error if np.isfinite(error) else float(np.finfo(np.float64).max),
        tolerance=limit,
    )
