"""The long arrays of the GPU's memory benchmarks: how long they are, and which random numbers fill them.

An element is the product of two numbers from short blocks that the host draws: array[i] = a[i mod P] · b[i mod Q].
P and Q are different primes, so that no two elements of an array share both factors: a kernel that reads another
element than it should finds another number, wherever that element lies. The device and the host form the product by
the same correctly rounded multiplication. So the host can form any part of an array again, bit for bit, and check every
element; it neither draws nor holds gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from accelbench.profiling.machine.devices.cupy_device import attribute, cupy_library, free_memory, require_device_memory

ACCESS_BYTES = 16
"""The widest access of one thread; an array is a multiple of it."""
MIN_BYTES = 256 * 1024**2
CACHES = 4
"""Arrays this many times the L2 cache leave little of one pass for the next to find."""
MEMORY_SHARE = 16
"""One execution moves a sixteenth of the free memory where that is more. Every card takes 16 ms or longer to read its
whole memory (H100 80 GB: 24 ms, B200: 22 ms, V100 16 GB: 18 ms). So an execution takes 1 ms or longer, and the 3 to
5 µs of filling and draining the multiprocessors are 0.5 % of it at most."""
MOST_BYTES = 7 << 30
"""An execution moves no more for that reason: 0.9 ms at 8 TB/s, and fewer than 2³¹ elements of 4 bytes, up to which
CuPy sums with CUB."""
PERIODS = 1_048_573, 1_048_571
"""P and Q, the two largest primes below 2²⁰; their product exceeds the length of any array."""
PART = 1 << 16
"""Elements that the host forms at once: they stay in its cache."""


def array_length(itemsize: int, *, arrays: int, moved: int) -> int:
    """Return the length of each of so many arrays, `moved` of which one execution moves; Skip where they do not fit.

    They fit where all together take no more than half of the free device memory.
    """
    long_enough = min(free_memory() // MEMORY_SHARE, MOST_BYTES) // moved
    size = max(MIN_BYTES, CACHES * attribute("L2CacheSize"), long_enough)
    require_device_memory(arrays * size)
    return size // ACCESS_BYTES * ACCESS_BYTES // itemsize


@dataclass(frozen=True)
class Numbers:
    """The random numbers of one array, as the two blocks of their factors."""

    a: Any
    b: Any

    def put(self, array: Any) -> None:
        """Write the numbers to every element of a CuPy array, by a kernel of CuPy's for each block."""
        a, b = (cupy_library().asarray(block.astype(array.dtype)) for block in (self.a, self.b))
        for begin in range(0, len(array), len(a)):
            part = array[begin : begin + len(a)]
            part[...] = a[: len(part)]
        for begin in range(0, len(array), len(b)):
            part = array[begin : begin + len(b)]
            part *= b[: len(part)]

    def factors(self, begin: int, end: int) -> Iterator[tuple[Any, Any]]:
        """Yield both factors of the elements from `begin` to before `end`, PART of them at a time."""
        a, b = (np.resize(block, len(block) + PART) for block in (self.a, self.b))
        for i in range(begin, end, PART):
            count = min(PART, end - i)
            start_a, start_b = i % len(self.a), i % len(self.b)
            yield a[start_a : start_a + count], b[start_b : start_b + count]

    def parts(self, begin: int, end: int) -> Iterator[Any]:
        """Return the elements from `begin` to before `end`, PART of them at a time."""
        return (a * b for a, b in self.factors(begin, end))

    def between(self, begin: int, end: int) -> Any:
        """Return the elements from `begin` to before `end` as one array."""
        return np.concatenate(list(self.parts(begin, end)))


def draw_normal(rng: np.random.Generator, dtype: Any) -> Numbers:
    """Draw standard normal numbers times others between 1 and 2, of both signs."""
    signs = rng.choice(np.array([-1, 1], dtype), PERIODS[1])
    return Numbers(rng.standard_normal(PERIODS[0], dtype=dtype), signs * (rng.random(PERIODS[1], dtype=dtype) + 1))


def draw_whole(rng: np.random.Generator, largest: int) -> Numbers:
    """Draw whole numbers up to `largest`, never 0 and of random sign, whose sum is exact in any order and any type.

    Both factors have a random sign, so that any two elements are uncorrelated, and the standard deviation of a sum of
    n is at most `largest`·√n: for 15 and 2³¹ elements a twenty-fourth of 2²⁴, up to where float32 holds every whole
    number.
    """
    signs = (rng.choice(np.array([-1, 1], np.float32), period) for period in PERIODS)
    return Numbers(next(signs) * rng.integers(1, largest, PERIODS[0], endpoint=True).astype(np.float32), next(signs))


def exact_sum(parts: Iterable[tuple[Any, Any]]) -> int:
    """Return Σ x·y of whole float32 numbers, given (x, y) in parts so short that float32 holds each sum exactly."""
    return sum(int(np.dot(x, y)) for x, y in parts)


def poison(array: Any, value: float = np.nan) -> None:
    """Write to every element of a CuPy array what is no right answer."""
    array.fill(value)
