"""Descriptions of GPU kernels, for compiling and inspecting them without a GPU.

Every `gpu_*.py` with kernels of its own has a function `device_code()` that lists them with the options of their
launch. `make kernels-report` and the tests compile them (see `compilation`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class NumbaKernel:
    """A kernel in Numba-CUDA."""

    name: str
    """Name in the report: `matmul numba float32`."""
    function: Any
    """Dispatcher returned by `cuda.jit`, with its options."""
    signature: Any
    """Numba signature of the launch: `void(float32[:, ::1], int32)`."""
    tuned: bool = False
    """Whether a spilled register is an error."""
    unit: str = "iteration"
    """Work of an iteration of the main loop: `node`, `element`."""


@dataclass(frozen=True)
class CudaKernel:
    """A kernel in CUDA C++, compiled by NVRTC through CuPy."""

    name: str
    """Name in the report: `stream cupy triad float64`."""
    entry: str
    """`extern "C"` name of the kernel in the source."""
    source: str
    options: tuple[str, ...] = ()
    tuned: bool = False
    unit: str = "iteration"
    shared_bytes: int = 0
    """Dynamic shared memory of the launch in bytes."""
    capability: tuple[int, int] = (8, 0)
    """Lowest compute capability that supports the source."""
    exact: bool = False
    """Whether the kernel runs on that compute capability only, as code for `sm_90a` does."""


@dataclass(frozen=True)
class TritonKernel:
    """A kernel in Triton."""

    name: str
    """Name in the report: `matmul triton float16 128x256x64`."""
    module: str
    """Module with the function, which imports Triton."""
    function: str
    """Name of a function with the decorator `triton.jit`."""
    arguments: tuple[tuple[str, str], ...]
    """Names and Triton types (`*fp16`, `i32`) of the arguments, in their order."""
    constants: tuple[tuple[str, Any], ...]
    """Names and values of the compile-time arguments, which follow the others."""
    warps: int
    stages: int = 1
    """Stages of the software pipeline of loads."""
    tuned: bool = False
    unit: str = "iteration"


DeviceKernel = NumbaKernel | CudaKernel | TritonKernel
