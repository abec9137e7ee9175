"""Arrays in host memory: length, allocation, first touch, and division into rows, chunks and vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import prange

from accelbench.kernels.lib.cpu.caches import last_level_bytes
from accelbench.kernels.lib.cpu.huge_pages import HUGE_PAGE, huge_empty
from accelbench.kernels.lib.cpu.threads import compiled, parallel, thread_count
from accelbench.profiling.machine.free_memory import SHARE, available_bytes, sharing_processes

SMALLEST = 64 << 20
"""Minimum bytes of an array, if the caches are small."""
UNLISTED = (1 << 30, 512 << 20, 256 << 20)
"""Bytes of an array if the kernel lists no last-level cache, as in the guests of some clouds: no cache of today's CPUs
holds the largest, and a small guest, which uses the smaller ones, has a small part of them."""
ARRAYS = 4
"""Number of arrays of this size for which the available memory has to suffice."""
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
    """Return a length of at least four times the last-level caches (STREAM's rules), in whole CHUNKs per thread.

    Processes that run together share the caches, and each has its part of this length.
    """
    step, caches = threads * CHUNK, last_level_bytes()
    needed = _without_caches() if caches is None else 4 * caches
    wanted = max(needed // sharing_processes(), SMALLEST) // itemsize
    return -(-wanted // step) * step


def _without_caches() -> int:
    """Return the largest size of `UNLISTED` for which the memory suffices, or the smallest one."""
    available = SHARE * available_bytes()
    return next((size for size in UNLISTED if ARRAYS * size <= available), UNLISTED[-1])


def aligned_empty(count: int, dtype: Any) -> Any:
    """Return an untouched array, page-aligned; a large one is aligned to huge pages and on them, if they are granted.

    NumPy requests them, too, but neither aligns the array to them nor covers its ends.
    """
    size = count * np.dtype(dtype).itemsize
    if size >= HUGE_PAGE:
        return huge_empty(count, dtype)
    memory = np.empty(size + ALIGNMENT, np.uint8)
    offset = -memory.ctypes.data % ALIGNMENT
    return memory[offset : offset + size].view(dtype)


def spread(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return an array first touched by all threads, so that its pages are spread over their memory nodes."""
    flat = aligned_empty(math.prod(shape), dtype)
    touch(flat, dtype.type(1), thread_count())
    return flat.reshape(shape)


def rows_per_array(width: int, threads: int, itemsize: int) -> int:
    """Return the number of rows of an array with at least `elements_per_array` elements, a multiple of the threads."""
    step = width * threads
    return -(-elements_per_array(itemsize, threads) // step) * threads


@compiled
def aligned_part(begin: int, end: int, lanes: int) -> tuple[int, int]:
    """Return the longest part of [begin, end) that consists of whole aligned vectors."""
    first = min(-(-begin // lanes) * lanes, end)
    return first, first + (end - first) // lanes * lanes


def even(n: int, at_most: int, multiple: int) -> int:
    """Return the size of equal parts of n, each of about `at_most` or less, rounded up to a multiple of `multiple`."""
    parts = -(-n // max(at_most, multiple))
    return -(-n // (parts * multiple)) * multiple
