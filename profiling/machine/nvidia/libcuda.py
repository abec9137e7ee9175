"""Devices of the CUDA driver library, without a CUDA context or toolkit.

Source: CUDA Driver API reference (cuInit, cuDeviceGet…, CUresult, CUdevice_attribute).
"""

from __future__ import annotations

import contextlib
import ctypes
import uuid
from dataclasses import dataclass

LIBCUDA = "libcuda.so.1"

# CUdevice_attribute
MULTIPROCESSOR_COUNT = 16
L2_CACHE_SIZE = 38
COMPUTE_CAPABILITY_MAJOR = 75
COMPUTE_CAPABILITY_MINOR = 76


class NoDriver(Exception):
    """Failure to load the driver library; the message is the loader's."""


class CudaError(Exception):
    """Failure of a driver call, with the error's name, such as `CUDA_ERROR_NO_DEVICE`."""

    def __init__(self, call: str, name: str) -> None:
        super().__init__(f"{call} returned {name}")
        self.name = name


@dataclass(frozen=True)
class CudaDevice:
    """A visible CUDA device; the values of a MIG instance are those of its partition."""

    name: str
    uuid: str
    pci_bus_id: str
    memory_bytes: int
    multiprocessors: int
    l2_bytes: int
    compute_capability: str


class Driver:
    """The loaded driver library; the constructor raises NoDriver if it cannot be loaded."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL(LIBCUDA)
        except OSError as error:
            raise NoDriver(str(error)) from None

    def cuda_version(self) -> tuple[int, int]:
        """Return the newest CUDA version that this driver supports, such as (13, 0)."""
        version = ctypes.c_int()
        self._call("cuDriverGetVersion", ctypes.byref(version))
        return version.value // 1000, version.value % 1000 // 10

    def devices(self) -> list[CudaDevice]:
        """Return the devices visible to this process in CUDA's order; raise CudaError if a driver call fails."""
        self._call("cuInit", 0)
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        return [self._device(ordinal) for ordinal in range(count.value)]

    def _device(self, ordinal: int) -> CudaDevice:
        handle, memory, identity = ctypes.c_int(), ctypes.c_size_t(), (ctypes.c_ubyte * 16)()
        name, bus = ctypes.create_string_buffer(256), ctypes.create_string_buffer(32)
        self._call("cuDeviceGet", ctypes.byref(handle), ordinal)
        self._call("cuDeviceGetName", name, len(name), handle)
        self._call("cuDeviceGetUuid", identity, handle)
        self._call("cuDeviceGetPCIBusId", bus, len(bus), handle)
        self._call("cuDeviceTotalMem_v2", ctypes.byref(memory), handle)
        major, minor = (self._attribute(a, handle) for a in (COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR))
        return CudaDevice(
            name=name.value.decode(),
            uuid=f"GPU-{uuid.UUID(bytes=bytes(identity))}",
            pci_bus_id=bus.value.decode(),
            memory_bytes=memory.value,
            multiprocessors=self._attribute(MULTIPROCESSOR_COUNT, handle),
            l2_bytes=self._attribute(L2_CACHE_SIZE, handle),
            compute_capability=f"{major}.{minor}",
        )

    def _attribute(self, attribute: int, handle: ctypes.c_int) -> int:
        value = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), attribute, handle)
        return value.value

    def _call(self, function: str, *arguments: object) -> None:
        try:
            code = self._library[function](*arguments)
        except AttributeError:  # an old driver
            raise CudaError(function, "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND") from None
        if code != 0:
            raise CudaError(function, self._error_name(code))

    def _error_name(self, code: int) -> str:
        text = ctypes.c_char_p()
        with contextlib.suppress(AttributeError):  # a driver before CUDA 6
            self._library.cuGetErrorName(code, ctypes.byref(text))
        return text.value.decode() if text.value else f"CUDA error {code}"
