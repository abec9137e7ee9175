"""Stand-in for the part of CuPy that accelbench and its GPU tests use, on the simulated driver.

CuPy contains the CUDA runtime, which requires NVIDIA's driver. Here arrays are NumPy arrays in memory that the driver
allocated, and NumPy computes the array operations. A `RawModule` is compiled with the real NVRTC, loaded and launched
with the real bindings.
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
from cupy.cuda import checked, current_stream

__version__ = "14.0.0"
float32, float64 = np.float32, np.float64
exp, full, sqrt, triu, where = np.exp, np.full, np.sqrt, np.triu, np.where
add, subtract, multiply, divide, square, maximum, sum, mean = (
    np.add, np.subtract, np.multiply, np.divide, np.square, np.maximum, np.sum, np.mean,
)  # fmt: skip


class Memory:
    """Device memory with NumPy's array interface, freed with the last array in it."""

    def __init__(self, size: int) -> None:
        self.address = int(checked(driver.cuMemAlloc(max(size, 1))))
        self.__array_interface__ = {"data": (self.address, False), "shape": (size,), "typestr": "|u1", "version": 3}

    def __del__(self) -> None:
        if address := getattr(self, "address", 0):
            driver.cuMemFree(address)


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
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.asarray(Memory(size)).view(dtype).reshape(shape).view(ndarray)


def empty_like(array: ndarray) -> ndarray:
    return empty(array.shape, array.dtype)


def asarray(array: Any) -> ndarray:
    """Return the array, a copy of one in host memory, or a view of another library's device array."""
    if isinstance(array, ndarray):
        return array
    if isinstance(array, np.ndarray):
        copy = empty(array.shape, array.dtype)
        copy[...] = array
        return copy
    described = SimpleNamespace(__array_interface__={**array.__cuda_array_interface__, "version": 3})
    return np.asarray(described).view(ndarray)


def asnumpy(array: ndarray) -> Any:
    return array.get()


random = SimpleNamespace(standard_normal=lambda size: asarray(np.random.default_rng(1).standard_normal(size)))


def get_default_memory_pool() -> Any:
    return SimpleNamespace(free_all_blocks=lambda: None)


class RawModule:
    def __init__(self, *, code: str | None = None, path: str | None = None, options: Sequence[str] = ()) -> None:
        image = Path(path).read_bytes() if path else _compile(str(code), options)
        checked(driver.cuInit(0))
        self._module = checked(driver.cuModuleLoadData(image))

    def get_function(self, name: str) -> RawKernel:
        return RawKernel(checked(driver.cuModuleGetFunction(self._module, name.encode())))


class RawKernel:
    def __init__(self, function: Any) -> None:
        self._function = function

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        return int(checked(driver.cuFuncGetAttribute(_DYNAMIC_SHARED, self._function)))

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, size: int) -> None:
        checked(driver.cuFuncSetAttribute(self._function, _DYNAMIC_SHARED, size))

    def __call__(self, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], *, shared_mem: int = 0) -> None:
        sides = [*grid, 1, 1][:3] + [*block, 1, 1][:3]
        values = [ctypes.create_string_buffer(raw, max(len(raw), 1)) for raw in map(_raw, args)]
        pointers = (ctypes.c_void_p * max(len(values), 1))(*(ctypes.addressof(value) for value in values))
        checked(
            driver.cuLaunchKernel(self._function, *sides, shared_mem, current_stream(), ctypes.addressof(pointers), 0)
        )


_DYNAMIC_SHARED = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


def _raw(argument: Any) -> bytes:
    """Return the bytes of a kernel's parameter: a device array's address, or a value as CuPy passes it."""
    if isinstance(argument, ndarray):
        return np.uint64(argument.ctypes.data).tobytes()
    return np.asarray(argument).tobytes()


def _compile(code: str, options: Sequence[str]) -> bytes:
    """Compile CUDA C++ with NVRTC; raise RuntimeError with the compiler's log on errors."""
    program = checked(nvrtc.nvrtcCreateProgram(code.encode(), b"module.cu", 0, [], []))
    flags = [flag.encode() for flag in ("--gpu-architecture=sm_90", *options)]
    if int(nvrtc.nvrtcCompileProgram(program, len(flags), flags)[0]) != 0:
        log = b" " * checked(nvrtc.nvrtcGetProgramLogSize(program))
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(log.decode())
    image: bytes = b" " * checked(nvrtc.nvrtcGetCUBINSize(program))
    checked(nvrtc.nvrtcGetCUBIN(program, image))
    return image
