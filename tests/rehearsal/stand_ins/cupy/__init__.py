"""Stand-in for the part of CuPy that accelbench and its GPU tests use, on the null driver.

CuPy contains the CUDA runtime, which requires NVIDIA's driver. Here arrays are NumPy arrays; a `RawModule` is compiled
with the real NVRTC, loaded with the real bindings, and launched on the null driver, which does not execute it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from cuda.bindings import driver, nvrtc

from cupy import cuda as cuda
from cupy.cuda import current_stream

__version__ = "14.0.0"
float32, float64 = np.float32, np.float64


class ndarray(np.ndarray[Any, Any]):
    def set(self, host: Any) -> None:
        if host.shape != self.shape or host.dtype != self.dtype:
            raise ValueError(f"{host.dtype}{host.shape} does not fit {self.dtype}{self.shape}")
        self[...] = host

    def get(self) -> Any:
        return np.array(self)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.__array_interface__, "version": 3}

    @property
    def data(self) -> Any:
        address = self.ctypes.data
        return SimpleNamespace(ptr=address, memset=lambda value, size: ctypes.memset(address, value, size))


def empty(shape: Any, dtype: Any = float) -> ndarray:
    return np.empty(shape, dtype).view(ndarray)


def empty_like(array: ndarray) -> ndarray:
    return empty(array.shape, array.dtype)


def asarray(array: Any) -> ndarray:
    """Return the array, or a view of another library's device array."""
    if isinstance(array, np.ndarray):
        return array.view(ndarray)
    described = SimpleNamespace(__array_interface__={**array.__cuda_array_interface__, "version": 3})
    return np.asarray(described).view(ndarray)


def asnumpy(array: ndarray) -> Any:
    return array.get()


def add(a: ndarray, b: ndarray, out: ndarray) -> ndarray:
    """Return `out` unchanged: no kernel is executed."""
    return out


def sum(array: ndarray, out: ndarray) -> ndarray:
    return out


random = SimpleNamespace(standard_normal=lambda size: np.zeros(size).view(ndarray))


def get_default_memory_pool() -> Any:
    return SimpleNamespace(free_all_blocks=lambda: None)


def _checked(answer: tuple[Any, ...]) -> Any:
    error, *results = answer
    if int(error) != 0:
        raise RuntimeError(f"{type(error).__name__}: {error.name}")
    return results[0] if results else None


class RawModule:
    def __init__(self, *, code: str | None = None, path: str | None = None, options: Sequence[str] = ()) -> None:
        image = Path(path).read_bytes() if path else _compile(str(code), options)
        _checked(driver.cuInit(0))
        self._module = _checked(driver.cuModuleLoadData(image))

    def get_function(self, name: str) -> RawKernel:
        return RawKernel(_checked(driver.cuModuleGetFunction(self._module, name.encode())))


class RawKernel:
    max_dynamic_shared_size_bytes = 0

    def __init__(self, function: Any) -> None:
        self._function = function

    def __call__(self, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], *, shared_mem: int = 0) -> None:
        sides = [*grid, 1, 1][:3] + [*block, 1, 1][:3]
        _checked(driver.cuLaunchKernel(self._function, *sides, shared_mem, current_stream(), 0, 0))


def _compile(code: str, options: Sequence[str]) -> bytes:
    """Compile CUDA C++ with NVRTC; raise RuntimeError with the compiler's log on errors."""
    program = _checked(nvrtc.nvrtcCreateProgram(code.encode(), b"module.cu", 0, [], []))
    flags = [flag.encode() for flag in ("--gpu-architecture=sm_90", *options)]
    if int(nvrtc.nvrtcCompileProgram(program, len(flags), flags)[0]) != 0:
        log = b" " * _checked(nvrtc.nvrtcGetProgramLogSize(program))
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(log.decode())
    image: bytes = b" " * _checked(nvrtc.nvrtcGetCUBINSize(program))
    _checked(nvrtc.nvrtcGetCUBIN(program, image))
    return image
