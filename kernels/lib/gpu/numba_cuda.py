"""Numba-CUDA set up for this suite: CUDA toolkit found, and names restored that newer libraries removed.

All kernels import Numba-CUDA from this module.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from accelbench.profiling.benchmark import Skip
from accelbench.profiling.machine.nvidia.toolkit import use_toolkit

OLDEST = (0, 26)
"""Oldest version of numba-cuda with the options of `cuda.jit` that the kernels use."""


def require_version() -> None:
    """Raise Skip with the install command if numba-cuda is older than `OLDEST`, or is the target in Numba itself."""
    try:
        found = version("numba-cuda")
    except PackageNotFoundError:
        found = "0"
    if tuple(map(int, re.findall(r"\d+", found)[:2])) < OLDEST:
        name = "Numba's own CUDA target" if found == "0" else f"numba-cuda {found}"
        raise Skip(f"{name} is too old: pip install 'numba-cuda>={'.'.join(map(str, OLDEST))}'")


require_version()
use_toolkit()
if not hasattr(np, "row_stack"):
    # Numba-CUDA 0.30 registers an overload of it for its first kernel, and NumPy 2.5 removed it.
    np.row_stack = np.vstack

from numba import cuda, float32, float64, int32, int64, types, uint32, uint64, void  # noqa: E402
from numba.cuda.extending import intrinsic  # noqa: E402

__all__ = [
    "cuda",
    "float32",
    "float64",
    "int32",
    "int64",
    "intrinsic",
    "numba_array",
    "numba_stream",
    "types",
    "uint32",
    "uint64",
    "unrolled",
    "void",
]


@lru_cache(maxsize=8)
def numba_stream(handle: int) -> Any:
    """Return the Numba stream of a CUDA stream handle, for a kernel's launch; 0 is the default stream."""
    return cuda.external_stream(handle) if handle else cuda.default_stream()


def numba_array(array: Any) -> Any:
    """Return a Numba view of a CuPy array, without which each launch would convert the array, in microseconds."""
    return cuda.as_cuda_array(array)


def unrolled(step: Any, times: int) -> Any:
    """Return a device function of (i, state) that calls the device function `step` for i, i + 1, …: `times` calls.

    The calls are unrolled explicitly, because NVVM does not unroll large loops and then places local arrays in memory
    instead of registers. `state` is a tuple of all data of a step; `times` is a power of two.
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
