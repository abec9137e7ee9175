"""Arrays in host memory: their length, allocation and first touch, and their division into rows, chunks and vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import prange

from accelbench.kernels.lib.cpu.caches import last_level_bytes
from accelbench.kernels.lib.cpu.threads import compiled, parallel, thread_count

SMALLEST = 64 << 20
"""Minimum bytes of an array, if the caches are small or not listed."""
ALIGNMENT = 4096
CHUNK = 64
"""Divisor of every thread's part in elements: whole cache lines, and four vectors of either type."""


@parallel
def touch_on_all(array: Any, value: Any, threads: int) -> None:
    part = len(array) // threads
    for thread in prange(threads):
        array[thread * part : (thread + 1) * part] = value


def touch(array: Any, value: Any, threads: int) -> None:
    """Fill the array, each thread its own part, so that the pages are allocated on the thread's memory node.

    With one thread the calling thread fills it, because a thread of Numba's pool may run on another node.
    """
    if threads == 1:
        array.fill(value)
    else:
        touch_on_all(array, value, threads)


def elements_per_array(itemsize: int, threads: int) -> int:
    """Return a length of four times the last-level caches or more, by STREAM's rules: equal parts of whole CHUNKs."""
    step = threads * CHUNK
    wanted = max(4 * (last_level_bytes() or 0), SMALLEST) // itemsize
    return -(-wanted // step) * step


def aligned_empty(count: int, dtype: Any) -> Any:
    """Return an untouched page-aligned array; NumPy requests huge pages for large arrays."""
    size = count * np.dtype(dtype).itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    offset = -memory.ctypes.data % ALIGNMENT
    return memory[offset : offset + size].view(dtype)


def spread(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return an array that all threads have touched, so that its pages are spread over their memory nodes."""
    flat = aligned_empty(math.prod(shape), dtype)
    touch(flat, dtype.type(1), thread_count())
    return flat.reshape(shape)


def rows_per_array(width: int, threads: int, itemsize: int) -> int:
    """Return the rows that make an array as long as `elements_per_array` requires, as many for every thread."""
    step = width * threads
    return -(-elements_per_array(itemsize, threads) // step) * threads


@compiled
def aligned_part(begin: int, end: int, lanes: int) -> tuple[int, int]:
    """Return the longest part of [begin, end) that consists of whole aligned vectors."""
    first = min(-(-begin // lanes) * lanes, end)
    return first, first + (end - first) // lanes * lanes


def even(n: int, at_most: int, multiple: int) -> int:
    """Return the size of equal parts of n, each about `at_most` or less, rounded up to a multiple."""
    parts = -(-n // max(at_most, multiple))
    return -(-n // (parts * multiple)) * multiple
