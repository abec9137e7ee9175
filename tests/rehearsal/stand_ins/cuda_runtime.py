"""The functions of `cuda.bindings.runtime` that accelbench calls on a device, answered by the null driver.

Each takes what the real one takes and returns a tuple of the driver's error, whose numbers are the runtime's, and the
results. The driver is asked through the real bindings.
"""

from __future__ import annotations

from typing import Any

from cuda.bindings import driver

Answer = tuple[Any, ...]


def cudaDeviceSynchronize() -> Answer:
    return driver.cuCtxSynchronize()


def cudaGetDevice() -> Answer:
    return driver.cuCtxGetDevice()


def cudaSetDevice(device: int) -> Answer:
    error, context = driver.cuDevicePrimaryCtxRetain(device)
    return driver.cuCtxSetCurrent(context) if int(error) == 0 else (error,)


def cudaGetDeviceCount() -> Answer:
    driver.cuInit(0)
    return driver.cuDeviceGetCount()


def cudaMemGetInfo() -> Answer:
    return driver.cuMemGetInfo()


def cudaDeviceGetAttribute(attr: Any, device: Any) -> Answer:
    return driver.cuDeviceGetAttribute(driver.CUdevice_attribute(int(attr)), device)


def cudaMalloc(size: int) -> Answer:
    error, pointer = driver.cuMemAlloc(size)
    return error, int(pointer)


def cudaFree(devPtr: int) -> Answer:
    return driver.cuMemFree(devPtr)


def cudaMemsetAsync(devPtr: int, value: int, count: int, stream: int) -> Answer:
    return driver.cuMemsetD8Async(devPtr, value, count, stream)
