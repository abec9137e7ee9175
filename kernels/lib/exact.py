"""Exact sums: whole numbers small enough that their sum is exact in any order and any type, and its check.

float32 is exact for whole numbers up to 2²⁴. A sum of n numbers of random sign and magnitude at most LARGEST reaches
2²⁴ with a probability of at most 2·exp(−2⁴⁸ / (2·n·LARGEST²)) (Hoeffding's inequality): below 10⁻²⁰⁰ for n = 2³⁰ (4 GiB
of float32). So the order of additions does not matter, and an element that is left out or added twice changes the sum
unless it is 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from accelbench.profiling.records.quality import Verification

LARGEST = 15
AT_ONCE = 1 << 22
"""Elements generated and summed at a time; bounds the temporary memory."""


def draw(rng: np.random.Generator, array: Any) -> int:
    """Fill a one-dimensional host array with random whole numbers and return their sum."""
    total = 0
    for begin in range(0, len(array), AT_ONCE):
        part = array[begin : begin + AT_ONCE]
        numbers = rng.integers(-LARGEST, LARGEST, len(part), np.int8, endpoint=True)
        part[:] = numbers
        total += int(numbers.sum(dtype=np.int64))
    return total


def exact_sum(parts: Iterable[tuple[Any, Any]]) -> int:
    """Return Σ x·y of whole float32 numbers, given (x, y) in parts short enough for exact sums in float32."""
    return sum(int(np.dot(x, y)) for x, y in parts)


def verify_sum(expected: int, found: float) -> Verification:
    """Check that a sum equals the expected one exactly; NaN, with which outputs are poisoned, fails."""
    return Verification(
        passed=bool(found == expected),
        method="sum of whole numbers, compared exactly",
        expected=str(expected),
        found=f"{found:.17g}",
    )
