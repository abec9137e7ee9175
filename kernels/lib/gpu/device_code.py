"""A GPU implementation's description of its kernels, by which they are compiled and inspected without a GPU.

Every `gpu_*.py` with kernels of its own has a function `device_code()` that lists them as it launches them. `make
kernels-report` and the tests compile them for the architectures in use (`accelbench.kernels.lib.gpu.compilation`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class NumbaKernel:
    """One kernel in Numba-CUDA."""

    name: str
    """The kernel's name in the report: `matmul numba float32`."""
    function: Any
    """The dispatcher that `cuda.jit` made of the Python function: its options count too."""
    signature: Any
    """Numba's types of what `prepare` passes: `void(float32[:, ::1], int32)`."""
    tuned: bool = False
    """Whether a register that is spilled to memory is a fault."""
    unit: str = "iteration"
    """The work of one turn of the innermost loop: `node`, `element`."""


@dataclass(frozen=True)
class CudaKernel:
    """One kernel in CUDA C++, compiled by NVRTC through CuPy."""

    name: str
    """The kernel's name in the report: `stream cupy triad float64`."""
    entry: str
    """The `extern "C"` name of the kernel in the source."""
    source: str
    options: tuple[str, ...] = ()
    tuned: bool = False
    unit: str = "iteration"
    shared_bytes: int = 0
    """Shared memory that the launch adds to what the source declares."""
    capability: tuple[int, int] = (8, 0)
    """The lowest compute capability that has what the source uses."""
    exact: bool = False
    """Whether the kernel runs on that capability alone, as code for `sm_90a` does."""


DeviceKernel = NumbaKernel | CudaKernel
