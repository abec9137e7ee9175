"""The compiler of our Python kernels, which they name here and nowhere else.

That is Numba-CUDA, and its successor `numba-cuda-mlir` only where Numba-CUDA is not installed or ACCELBENCH_NUMBA asks
for the successor; docs/compilers.md says why. What a version of either lacks is mended here.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

import numpy as np
from numba import config

from profiling.benchmark import Skip
from profiling.machine.devices import is_installed
from profiling.machine.nvidia.toolkit import use_toolkit

__all__ = [
    "cuda",
    "float32",
    "float64",
    "int32",
    "int64",
    "numba_stream",
    "require_numba_cuda",
    "simulated",
    "successor",
    "types",
    "uint32",
    "uint64",
    "void",
]

CHOICE = "ACCELBENCH_NUMBA"
MODULES = {"numba-cuda": "numba_cuda", "numba-cuda-mlir": "numba_cuda_mlir"}
"""The compilers that the variable may ask for, each with its module; the one to be preferred is first."""


def _takes_successor() -> bool:
    """Return whether the successor compiles; ValueError if the variable asks for something else than the two."""
    asked = os.environ.get(CHOICE)
    if asked and asked not in MODULES:
        raise ValueError(f"{CHOICE}={asked!r} names no compiler: take {' or '.join(MODULES)}")
    installed = [name for name, module in MODULES.items() if is_installed(module)]
    return (asked or next(iter(installed), None)) == "numba-cuda-mlir"


simulated = bool(config.ENABLE_CUDASIM)
"""Whether kernels run as Python functions, in Numba's simulator (NUMBA_ENABLE_CUDASIM=1)."""
successor = not simulated and _takes_successor()
"""Whether `numba-cuda-mlir` compiles the kernels."""

use_toolkit()
if successor:
    from numba_cuda_mlir import cuda, types
    from numba_cuda_mlir.types import float32, float64, int32, int64, uint32, uint64, void
else:
    if not hasattr(np, "row_stack"):
        # Numba-CUDA 0.30 registers an overload of it with its first kernel, and NumPy 2.5 has removed the name.
        np.row_stack = np.vstack
    from numba import cuda, float32, float64, int32, int64, types, uint32, uint64, void


@lru_cache(maxsize=8)
def numba_stream(handle: int) -> Any:
    """Return a CUDA stream handle as a Numba stream, to be given to a kernel's launch; 0 is the default stream."""
    return cuda.external_stream(handle) if handle else cuda.default_stream()


def require_numba_cuda(what: str, part: str) -> None:
    """Skip under the successor; `what` needs `part` of the language, which the successor does not compile."""
    if successor:
        raise Skip(f"{what} needs {part}, which numba-cuda-mlir does not compile: install numba-cuda")
