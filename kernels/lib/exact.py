"""Exact sums: whole numbers so small that their sum is exact in any order and any type, and the check of such a sum.

A sum of n numbers of at most LARGEST, of random sign, reaches 2²⁴, up to where float32 holds every whole number, with a
chance of at most 2·exp(−2⁴⁸ / (2·n·LARGEST²)) (Hoeffding's inequality): below 10⁻²⁰⁰ for the 4 GiB of n = 2³⁰. So the
order of the additions does not matter, and an element that is left out or added twice changes the sum unless it is 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from accelbench.profiling.records.quality import Verification

LARGEST = 15
AT_ONCE = 1 << 22
"""Elements drawn and summed at a time; bounds the temporary memory."""


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
    """Return Σ x·y of whole float32 numbers, given (x, y) in parts so short that float32 holds each sum exactly."""
    return sum(int(np.dot(x, y)) for x, y in parts)


def verify_sum(expected: int, found: float) -> Verification:
    """Check that a sum is exactly equal to the expected one; NaN, the poison of an output, is not."""
    return Verification(
        passed=bool(found == expected),
        method="sum of whole numbers, exactly",
        expected=str(expected),
        found=f"{found:.17g}",
    )
