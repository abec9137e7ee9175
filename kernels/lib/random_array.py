"""Random contents of long arrays in any memory, which the host can recompute in parts.

An element is the product of two numbers from short random blocks: array[i] = a[i mod P] · b[i mod Q]. P and Q are
different primes, so no two elements of an array share both factors, and a kernel that reads a wrong element gets a
different number. Device and host compute the product by the same correctly rounded multiplication. So the host can
recompute any part of an array, bit for bit, and check every element of a result without copying gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

PERIODS = 1_048_573, 1_048_571
"""P and Q, the two largest primes below 2²⁰; their product exceeds the length of any array."""
PART = 1 << 16
"""Elements computed at a time on the host; they fit in its cache."""


@dataclass(frozen=True)
class RandomArray:
    """Contents of one array, stored as two blocks of factors."""

    a: Any
    b: Any

    def scaled(self, factor: float) -> RandomArray:
        """Return the contents multiplied by a factor, which is rounded to the type of the first block."""
        return RandomArray(self.a.dtype.type(factor) * self.a, self.b)

    def factors(self, begin: int, end: int) -> Iterator[tuple[Any, Any]]:
        """Yield both factors of the elements [begin, end), PART of them at a time."""
        a, b = (np.resize(block, len(block) + PART) for block in (self.a, self.b))
        for i in range(begin, end, PART):
            count = min(PART, end - i)
            start_a, start_b = i % len(self.a), i % len(self.b)
            yield a[start_a : start_a + count], b[start_b : start_b + count]

    def parts(self, begin: int, end: int) -> Iterator[Any]:
        """Return the elements [begin, end), PART of them at a time."""
        return (a * b for a, b in self.factors(begin, end))

    def between(self, begin: int, end: int) -> Any:
        """Return the elements [begin, end) as one array."""
        return np.concatenate(list(self.parts(begin, end)))

    def fill(self, array: Any) -> None:
        """Write the contents to every element of an array in host memory."""
        for begin, part in zip(range(0, len(array), PART), self.parts(0, len(array)), strict=True):
            array[begin : begin + len(part)] = part


def draw_normal(rng: np.random.Generator, dtype: Any) -> RandomArray:
    """Return standard normal numbers multiplied by uniform numbers between 1 and 2."""
    signs = rng.choice(np.array([-1, 1], dtype), PERIODS[1])
    return RandomArray(rng.standard_normal(PERIODS[0], dtype=dtype), signs * (rng.random(PERIODS[1], dtype=dtype) + 1))


def draw_whole(rng: np.random.Generator, largest: int) -> RandomArray:
    """Return whole float32 numbers up to `largest`, never 0 and of random sign; their sum is exact in any order.

    Both factors have a random sign, so any two elements are uncorrelated, and the standard deviation of a sum of n
    elements is at most `largest`·√n. For `largest` = 15 and n = 2³¹ this is 1/24 of 2²⁴, up to which float32 holds
    every whole number.
    """
    signs = (rng.choice(np.array([-1, 1], np.float32), period) for period in PERIODS)
    return RandomArray(
        next(signs) * rng.integers(1, largest, PERIODS[0], endpoint=True).astype(np.float32), next(signs)
    )
