"""CUDA runtime calls: device attributes, free memory, synchronization, and imports of GPU libraries."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

from accelbench.profiling.benchmark import Skip
from accelbench.profiling.machine.packages import install_extra

DISTRIBUTIONS = {
    "cupy": "CuPy",
    "numba.cuda": "Numba-CUDA",
    "cuda.bindings.runtime": "cuda-bindings",
    "cuda.bench": "cuda-bench",
}


def library(module: str) -> ModuleType:
    """Import a module of a GPU library; raise Skip with the install command if it fails."""
    try:
        return import_module(module)
    except ImportError as error:
        name = DISTRIBUTIONS.get(module, module)
        install = f"{install_extra('gpu')} (CUDA 12) or {install_extra('gpu13')} (CUDA 13)"
        raise Skip(f"{name} cannot be imported ({error}): {install}") from error


def call(function: str, *args: Any) -> Any:
    """Call a CUDA runtime function by name and return its results; raise RuntimeError with CUDA's error name.

    Source: CUDA Runtime API in `cuda.bindings.runtime`, whose functions return the error code and the results.
    """
    error, *results = getattr(library("cuda.bindings.runtime"), function)(*args)
    if int(error) != 0:
        raise RuntimeError(f"{function}: {error.name}")
    return results[0] if len(results) == 1 else results


def synchronize() -> None:
    """Wait until the device has finished all work; raise RuntimeError if any of it failed."""
    call("cudaDeviceSynchronize")


def use_device(index: int) -> None:
    """Make a visible device current for the calling thread in the CUDA runtime, CuPy and Numba."""
    call("cudaSetDevice", index)
    library("cupy").cuda.Device(index).use()
    library("numba.cuda").select_device(index)


def attribute(name: str) -> int:
    """Return a device attribute by its name without `cudaDevAttr`, such as `L2CacheSize` (bytes)."""
    attributes = library("cuda.bindings.runtime").cudaDeviceAttr
    return int(call("cudaDeviceGetAttribute", getattr(attributes, f"cudaDevAttr{name}"), call("cudaGetDevice")))


def free_memory() -> int:
    """Return the free device memory in bytes."""
    free, _ = call("cudaMemGetInfo")
    return int(free)


def compute_capability() -> tuple[int, int]:
    """Return the compute capability of the current device, (9, 0) for Hopper."""
    return attribute("ComputeCapabilityMajor"), attribute("ComputeCapabilityMinor")


def require_compute_capability(needed: tuple[int, int], what: str) -> None:
    """Skip unless the device has that compute capability; `what` names the thing that needs it."""
    found = compute_capability()
    if found < needed:
        raise Skip(
            f"{what} needs compute capability {needed[0]}.{needed[1]}, and this device has {found[0]}.{found[1]}"
        )
