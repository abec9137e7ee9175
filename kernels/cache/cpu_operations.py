"""Operations of `cache-bandwidth` on each core's working set: read, write, or copy the first half to the second.

In each pass every operation moves each byte of the set once, by ordinary vector loads and stores, unrolled eight times.
Each pass of `write` and `copy` writes numbers that are larger by one than those of the previous pass: the addition
takes no time compared with the store, and the check finds the number of passes in the data. All numbers are whole and
small enough to be exact.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numba import prange

from accelbench.kernels.lib.cpu.simd import fma, lanes_of, load, splat, store
from accelbench.kernels.lib.cpu.sums import sum_vectors
from accelbench.kernels.lib.cpu.threads import compiled, parallel
from accelbench.kernels.lib.exact import LARGEST, draw
from accelbench.profiling.records.quality import Verification


@compiled
def write_vectors(array: Any, value: Any, passes: int) -> None:
    """Fill the array `passes` times, the last time with `value + passes`."""
    lanes = lanes_of(array)
    for _ in range(passes):
        value += 1.0
        vector = splat(value)
        for i in range(0, len(array), 8 * lanes):
            store(array, i, vector)
            store(array, i + lanes, vector)
            store(array, i + 2 * lanes, vector)
            store(array, i + 3 * lanes, vector)
            store(array, i + 4 * lanes, vector)
            store(array, i + 5 * lanes, vector)
            store(array, i + 6 * lanes, vector)
            store(array, i + 7 * lanes, vector)


@compiled
def copy_vectors(array: Any, value: Any, passes: int) -> None:
    """Write the first half of the array to the second `passes` times, the last time with `value + passes` added."""
    lanes, half = lanes_of(array), len(array) // 2
    one = splat(array.dtype.type(1))
    for _ in range(passes):
        value += 1.0
        added = splat(value)
        for i in range(0, half, 8 * lanes):
            store(array, half + i, fma(one, load(array, i), added))
            store(array, half + i + lanes, fma(one, load(array, i + lanes), added))
            store(array, half + i + 2 * lanes, fma(one, load(array, i + 2 * lanes), added))
            store(array, half + i + 3 * lanes, fma(one, load(array, i + 3 * lanes), added))
            store(array, half + i + 4 * lanes, fma(one, load(array, i + 4 * lanes), added))
            store(array, half + i + 5 * lanes, fma(one, load(array, i + 5 * lanes), added))
            store(array, half + i + 6 * lanes, fma(one, load(array, i + 6 * lanes), added))
            store(array, half + i + 7 * lanes, fma(one, load(array, i + 7 * lanes), added))


@parallel
def sum_on_all(arrays: Any, sums: Any, passes: int) -> None:
    """Write the sum of each row of `arrays` to `sums`, one row per thread."""
    for thread in prange(len(sums)):
        sums[thread] = sum_vectors(arrays[thread], 0, arrays.shape[1], passes)


@parallel
def write_on_all(arrays: Any, value: Any, passes: int) -> None:
    for thread in prange(len(arrays)):
        write_vectors(arrays[thread], value, passes)


@parallel
def copy_on_all(arrays: Any, value: Any, passes: int) -> None:
    for thread in prange(len(arrays)):
        copy_vectors(arrays[thread], value, passes)


class CacheOperation(Protocol):
    """Interface of an operation on the rows of an array, one row per core."""

    def draw(self, rng: np.random.Generator) -> None:
        """Write fresh random inputs, and poison the outputs."""

    def run(self, passes: int) -> None:
        """Move every byte of each row `passes` times."""

    def verify(self, passes: int) -> Verification:
        """Check the result of one `run` since the last `draw`."""


class Read:
    """Sums of the rows in vector registers."""

    def __init__(self, arrays: Any) -> None:
        self.arrays, self.sums = arrays, np.empty(len(arrays))

    def draw(self, rng: np.random.Generator) -> None:
        for row in self.arrays:
            draw(rng, row)
        self.sums.fill(np.nan)

    def run(self, passes: int) -> None:
        if len(self.arrays) == 1:
            self.sums[0] = sum_vectors(self.arrays[0], 0, self.arrays.shape[1], passes)
        else:
            sum_on_all(self.arrays, self.sums, passes)

    def verify(self, passes: int) -> Verification:
        expected = [passes * int(row.sum()) for row in self.arrays]
        return Verification(
            passed=bool(np.array_equal(self.sums, expected)),
            method="exact sum of whole numbers on each core",
            expected=str(sum(expected)),
            found=f"{self.sums.sum():.17g}",
        )


class Write:
    """Fills of the rows with one number, which increases in every pass."""

    def __init__(self, arrays: Any) -> None:
        self.arrays, self.value = arrays, 1.0

    def draw(self, rng: np.random.Generator) -> None:
        self.value = float(rng.integers(1, LARGEST, endpoint=True))
        self.arrays.fill(np.nan)

    def run(self, passes: int) -> None:
        if len(self.arrays) == 1:
            write_vectors(self.arrays[0], self.value, passes)
        else:
            write_on_all(self.arrays, self.value, passes)

    def verify(self, passes: int) -> Verification:
        wrong = int(np.count_nonzero(self.arrays != self.value + passes))
        return no_element_wrong(wrong, f"every element equal to {self.value + passes:g}")


class Copy:
    """Copies of the first half of each row to the second, plus a number that increases in every pass."""

    def __init__(self, arrays: Any) -> None:
        self.arrays, self.value = arrays, 1.0
        self.half = arrays.shape[1] // 2

    def draw(self, rng: np.random.Generator) -> None:
        self.value = float(rng.integers(1, LARGEST, endpoint=True))
        for row in self.arrays:
            draw(rng, row[: self.half])
            row[self.half :] = np.nan

    def run(self, passes: int) -> None:
        if len(self.arrays) == 1:
            copy_vectors(self.arrays[0], self.value, passes)
        else:
            copy_on_all(self.arrays, self.value, passes)

    def verify(self, passes: int) -> Verification:
        first, second = self.arrays[:, : self.half], self.arrays[:, self.half :]
        wrong = int(np.count_nonzero(second != first + (self.value + passes)))
        return no_element_wrong(wrong, f"every copied element plus {self.value + passes:g}, exactly")


def no_element_wrong(wrong: int, method: str) -> Verification:
    return Verification(passed=wrong == 0, method=method, expected="0 wrong elements", found=f"{wrong} wrong elements")


OPERATIONS: dict[str, type[Read] | type[Write] | type[Copy]] = {"read": Read, "write": Write, "copy": Copy}
