"""Arrays in device memory for memory benchmarks: length and random contents."""

from __future__ import annotations

from typing import Any

import numpy as np

from accelbench.kernels.lib.random_array import RandomArray
from accelbench.profiling.devices.cupy_device import attribute, cupy_library, free_memory, require_device_memory

ACCESS_BYTES = 16
"""Bytes of the widest access of a thread; the size of an array is a multiple of it."""
MIN_BYTES = 256 * 1024**2
CACHES = 4
"""Minimum size of an array as a multiple of the L2 cache, so that a pass has few hits from the previous pass."""
MEMORY_SHARE = 16
"""Divisor of the free memory: an execution moves at least a sixteenth of it. Every GPU takes 16 ms or longer to read
its complete memory (H100 80 GB: 24 ms, B200: 22 ms, V100 16 GB: 18 ms). So an execution takes at least 1 ms, of which
the 3–5 µs for filling and draining the multiprocessors are at most 0.5 %."""
MOST_BYTES = 7 << 30
"""Upper limit of the bytes moved because of `MEMORY_SHARE`: 0.9 ms at 8 TB/s, and fewer than the 2³¹ elements of 4
bytes up to which CuPy sums by CUB."""


def array_length(itemsize: int, *, arrays: int, moved: int) -> int:
    """Return the length of each of `arrays` arrays, if one execution moves `moved` of them.

    Skip if all arrays need more than half of the free device memory.
    """
    long_enough = min(free_memory() // MEMORY_SHARE, MOST_BYTES) // moved
    size = max(MIN_BYTES, CACHES * attribute("L2CacheSize"), long_enough)
    require_device_memory(arrays * size)
    return size // ACCESS_BYTES * ACCESS_BYTES // itemsize


def put(contents: RandomArray, array: Any) -> None:
    """Write random contents to every element of a CuPy array; each repetition of a block is one CuPy kernel."""
    a, b = (cupy_library().asarray(block.astype(array.dtype)) for block in (contents.a, contents.b))
    for begin in range(0, len(array), len(a)):
        part = array[begin : begin + len(a)]
        part[...] = a[: len(part)]
    for begin in range(0, len(array), len(b)):
        part = array[begin : begin + len(b)]
        part *= b[: len(part)]


def poison(array: Any) -> None:
    """Write a value that is no correct result to every element: NaN, or the largest integer of the type."""
    array.fill(np.iinfo(array.dtype).max if array.dtype.kind == "i" else np.nan)
