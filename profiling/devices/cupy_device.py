"""GPU functions for portable kernels: CuPy in the vendor's build (CUDA or ROCm), device attributes and memory.

An implementation that imports Numba-CUDA or `accelbench.profiling.machine.nvidia` runs on NVIDIA's GPUs only and
declares `VENDORS = ("nvidia",)`. All others use this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from accelbench.profiling.devices import gpu_backend
from accelbench.profiling.machine.pcie import PcieLink


def cupy_library() -> Any:
    """Return the module `cupy`; raise Skip with the install advice if it is missing."""
    return gpu_backend().library("cupy")


def attribute(name: str) -> int:
    """Return `L2CacheSize` (bytes) or `MultiProcessorCount` of the current device."""
    return gpu_backend().attribute(name)


def free_memory() -> int:
    """Return the free device memory in bytes."""
    return gpu_backend().free_memory()


def host_links() -> tuple[PcieLink, PcieLink] | None:
    """Return the current link of the first device to the host, and the best that it supports; None if unknown."""
    return gpu_backend().host_links()


def synchronize() -> None:
    """Wait until the device has finished all work; raise RuntimeError if any of it failed."""
    gpu_backend().synchronize()


def require_device_memory(needed: int, free: int | None = None) -> None:
    """Raise Skip if arrays of `needed` bytes would take more than half of the free device memory (None: read it)."""
    from accelbench.profiling.benchmark import Skip
    from accelbench.profiling.text import format_bytes

    free = free_memory() if free is None else free
    if needed > free // 2:
        raise Skip(
            f"needs {format_bytes(needed)} of device memory; half of the free {format_bytes(free)} "
            f"is {format_bytes(free / 2)}"
        )


@dataclass(frozen=True)
class _Stream:
    """A stream of another library, with CUDA's stream protocol."""

    handle: int

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return the protocol's version and the stream's address."""
        return 0, self.handle


@lru_cache(maxsize=8)
def cupy_stream(handle: int) -> Any:
    """Return a CuPy stream for a stream handle, for use in `with`; 0 is the default stream."""
    streams = cupy_library().cuda.Stream
    # The default stream follows the current device; any other stream belongs to the device of its first use.
    return streams.from_external(_Stream(handle)) if handle else streams.null
