"""Stand-in for the functions of `cuda.bindings.runtime` that accelbench calls, implemented with the driver API.

Each function has the real parameters and returns a tuple of the driver's error code, equal to the runtime's, and the
results.
"""

from __future__ import annotations

from typing import Any

from cuda.bindings import driver

Result = tuple[Any, ...]


def cudaDeviceSynchronize() -> Result:
    return driver.cuCtxSynchronize()


def cudaGetDevice() -> Result:
    return driver.cuCtxGetDevice()


def cudaSetDevice(device: int) -> Result:
    error, context = driver.cuDevicePrimaryCtxRetain(device)
    return driver.cuCtxSetCurrent(context) if int(error) == 0 else (error,)


def cudaGetDeviceCount() -> Result:
    driver.cuInit(0)
    return driver.cuDeviceGetCount()


def cudaMemGetInfo() -> Result:
    return driver.cuMemGetInfo()


def cudaDeviceGetAttribute(attr: Any, device: Any) -> Result:
    return driver.cuDeviceGetAttribute(driver.CUdevice_attribute(int(attr)), device)


def cudaMalloc(size: int) -> Result:
    error, pointer = driver.cuMemAlloc(size)
    return error, int(pointer)


def cudaFree(devPtr: int) -> Result:
    return driver.cuMemFree(devPtr)


def cudaMemsetAsync(devPtr: int, value: int, count: int, stream: int) -> Result:
    return driver.cuMemsetD8Async(devPtr, value, count, stream)
