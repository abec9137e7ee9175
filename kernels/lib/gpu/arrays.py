"""Arrays in device memory: the length of those that a memory benchmark passes over, and their random contents."""

from __future__ import annotations

from typing import Any

import numpy as np

from accelbench.kernels.lib.gpu.device_code import DeviceKernel, NumbaKernel
from accelbench.kernels.lib.gpu.numba_cuda import cuda, float32, float64, int32, void
from accelbench.kernels.lib.random_array import RandomArray
from accelbench.profiling.machine.nvidia.cuda import attribute, free_memory, require_device_memory

ACCESS_BYTES = 16
"""Bytes of the widest access of a thread; the size of an array is a multiple of it."""
MIN_BYTES = 256 * 1024**2
CACHES = 4
"""Minimum size of an array in L2 caches, so that a pass finds little of the previous pass in the cache."""
MEMORY_SHARE = 16
"""An execution moves at least this fraction, a sixteenth, of the free memory. Every card takes 16 ms or longer to read
its whole memory (H100 80 GB: 24 ms, B200: 22 ms, V100 16 GB: 18 ms). So an execution takes 1 ms or longer, and the 3 to
5 µs of filling and draining the multiprocessors are 0.5 % of it at most."""
MOST_BYTES = 7 << 30
"""Upper limit of the bytes that `MEMORY_SHARE` makes an execution move: 0.9 ms at 8 TB/s, and fewer than 2³¹ elements
of 4 bytes, up to which CuPy sums with CUB."""
THREADS = 256
BLOCKS_PER_MULTIPROCESSOR = 8
TYPES = {"float32": float32, "float64": float64, "int32": int32}


def array_length(itemsize: int, *, arrays: int, moved: int) -> int:
    """Return the length of each of `arrays` arrays, if one execution moves `moved` of them.

    Skip if all arrays need more than half of the free device memory.
    """
    long_enough = min(free_memory() // MEMORY_SHARE, MOST_BYTES) // moved
    size = max(MIN_BYTES, CACHES * attribute("L2CacheSize"), long_enough)
    require_device_memory(arrays * size)
    return size // ACCESS_BYTES * ACCESS_BYTES // itemsize


def put(contents: RandomArray, array: Any) -> None:
    """Write random contents to every element of a Numba device array."""
    a, b = (cuda.to_device(block.astype(array.dtype)) for block in (contents.a, contents.b))
    blocks = BLOCKS_PER_MULTIPROCESSOR * attribute("MultiProcessorCount")
    FILL[array.dtype.name][blocks, THREADS](array, a, b)


def poison(array: Any) -> None:
    """Write a value that is no correct result to every element: NaN, or the largest integer of the type."""
    if array.dtype.kind == "i":
        array.copy_to_device(np.full(array.shape, np.iinfo(array.dtype).max, array.dtype))
    else:
        put(RandomArray(np.array([np.nan]), np.ones(1)), array)


def define_fill() -> Any:
    """Return the function `fill(array, a, b)`: array[i] = a[i mod P] · b[i mod Q], of blocks of P and Q numbers."""

    def fill(array: Any, a: Any, b: Any) -> None:
        step = cuda.gridsize(1)
        i = cuda.grid(1)
        while i < array.shape[0]:
            array[i] = a[i % a.shape[0]] * b[i % b.shape[0]]
            i += step

    return fill


FILL = {dtype: cuda.jit(define_fill()) for dtype in TYPES}


def device_code() -> list[DeviceKernel]:
    return [
        NumbaKernel(f"stream fill {dtype}", kernel, void(TYPES[dtype][::1], TYPES[dtype][::1], TYPES[dtype][::1]))
        for dtype, kernel in FILL.items()
    ]
