"""Stand-in for CuPy with arrays in host memory, with the functions that tasks use, for tests without a GPU."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np


class HostArray(np.ndarray[Any, Any]):
    """NumPy array with the additional methods of CuPy arrays."""

    def set(self, host: Any) -> None:
        assert host.shape == self.shape
        assert host.dtype == self.dtype
        self[...] = host

    def get(self) -> Any:
        return np.array(self)

    @property
    def data(self) -> Any:
        def memset(byte: int, size: int) -> None:
            ctypes.memset(self.ctypes.data, byte, size)

        return SimpleNamespace(ptr=self.ctypes.data, memset=memset)


def empty(shape: Any, dtype: Any) -> HostArray:
    return np.empty(shape, dtype).view(HostArray)


def asarray(array: Any) -> HostArray:
    return np.asarray(array).view(HostArray)


def at(pointer: int, count: int, dtype: str) -> Any:
    """Return a view of `count` elements at an address of host memory."""
    size = count * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(pointer), dtype)


cupy = SimpleNamespace(empty=empty, asarray=asarray)
