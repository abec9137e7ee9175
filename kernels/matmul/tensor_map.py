"""Tensor maps: descriptors of a matrix in device memory for Hopper's bulk copy engine (TMA).

They are created by the driver function cuTensorMapEncodeTiled through ctypes, in memory with the required alignment,
which the object of cuda.bindings lacks.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from accelbench.profiling.machine.nvidia.libcuda import LIBCUDA

TENSOR_MAP = np.dtype("V128")
ALIGNMENT = 128
BYTES = 2
SWIZZLE_BYTES = 128
"""Bytes of a row of a box: the maximum with the 128-byte swizzle."""

# cuda.h: CUtensorMapDataType, -Interleave, -Swizzle, -L2promotion, -FloatOOBfill
UINT16 = 1
NOT_INTERLEAVED = 0
SWIZZLE_128B = 3
PROMOTE_TO_256_BYTES = 3
ZEROS_OUTSIDE = 0


def tensor_map(address: int, shape: tuple[int, int, int], rows: int, driver: str = LIBCUDA) -> Any:
    """Return the tensor map of a contiguous array of 2-byte elements and shape `shape`, for boxes of `rows` × 64.

    The shape is (batch, rows, columns). The result is an array of one element, which CuPy passes to a kernel by value.
    The number of columns must be a multiple of 8, so that rows are aligned to 16 bytes. Raise RuntimeError if the
    driver reports an error.
    """
    room = np.zeros(TENSOR_MAP.itemsize + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    encoded = room[start : start + TENSOR_MAP.itemsize]
    batch, height, width = shape
    error = _encode(driver)(
        encoded.ctypes.data, UINT16, 3, address,
        (ctypes.c_uint64 * 3)(width, height, batch), (ctypes.c_uint64 * 2)(width * BYTES, height * width * BYTES),
        (ctypes.c_uint32 * 3)(SWIZZLE_BYTES // BYTES, rows, 1), (ctypes.c_uint32 * 3)(1, 1, 1),
        NOT_INTERLEAVED, SWIZZLE_128B, PROMOTE_TO_256_BYTES, ZEROS_OUTSIDE,
    )  # fmt: skip
    if error != 0:
        raise RuntimeError(f"cuTensorMapEncodeTiled: CUDA error {error} for {shape} in boxes of {rows} rows")
    return encoded.view(TENSOR_MAP)


@cache
def _encode(driver: str) -> Any:
    function = ctypes.CDLL(driver).cuTensorMapEncodeTiled
    pointer, enumeration = ctypes.c_void_p, ctypes.c_int
    function.argtypes = (pointer, enumeration, ctypes.c_uint32, *(pointer,) * 5, *(enumeration,) * 4)
    return function
