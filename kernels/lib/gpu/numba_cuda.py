"""Numba-CUDA with its toolkit and with the names that newer libraries removed; all kernels import it from here."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numba import config

from accelbench.profiling.machine.nvidia.toolkit import use_toolkit

use_toolkit()
if not hasattr(np, "row_stack"):
    # Numba-CUDA 0.30 registers an overload of it with its first kernel, and NumPy 2.5 has removed the name.
    np.row_stack = np.vstack

from numba import cuda, float32, float64, int32, int64, types, uint32, uint64, void  # noqa: E402

__all__ = [
    "cuda",
    "float32",
    "float64",
    "int32",
    "int64",
    "numba_array",
    "numba_stream",
    "simulated",
    "types",
    "uint32",
    "uint64",
    "unrolled",
    "void",
]

simulated = bool(config.ENABLE_CUDASIM)
"""Whether kernels run as Python functions, in Numba's simulator (NUMBA_ENABLE_CUDASIM=1)."""


@lru_cache(maxsize=8)
def numba_stream(handle: int) -> Any:
    """Return the Numba stream of a CUDA stream handle, for a kernel's launch; 0 is the default stream."""
    return cuda.external_stream(handle) if handle else cuda.default_stream()


def numba_array(array: Any) -> Any:
    """Return a CuPy array as one of Numba's in the same memory; a launch would take microseconds for it each time."""
    return array if simulated else cuda.as_cuda_array(array)


def unrolled(step: Any, times: int) -> Any:
    """Return a device function of (i, state) that calls the device function `step` for i, i + 1, …: `times` calls.

    The calls are written out because NVVM leaves large loops rolled, and their local arrays are then in memory.
    `state` is a tuple of everything that a step works on; `times` is a power of two.
    """
    ahead = 1
    while ahead < times:
        step, ahead = _twice(step, ahead), 2 * ahead
    return step


def _twice(step: Any, ahead: int) -> Any:
    @cuda.jit(device=True)
    def both(i: int, state: Any) -> None:
        step(i, state)
        step(i + ahead, state)

    return both
