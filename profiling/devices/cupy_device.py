"""The GPU as portable kernels use it: CuPy in its vendor's build (CUDA or ROCm), and the sizes of the device.

An implementation that imports Numba-CUDA or `accelbench.profiling.machine.nvidia` runs on NVIDIA's GPUs only, and
declares it: `VENDORS = ("nvidia",)`. Every other one takes the GPU from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from accelbench.profiling.devices import gpu_backend


def cupy_library() -> Any:
    """Return the module `cupy`; Skip, with what installs the vendor's build, where it is missing."""
    return gpu_backend().library("cupy")


def attribute(name: str) -> int:
    """Return `L2CacheSize` (bytes) or `MultiProcessorCount` of the current device."""
    return gpu_backend().attribute(name)


def free_memory() -> int:
    """Return the bytes of device memory that are free now."""
    return gpu_backend().free_memory()


def synchronize() -> None:
    """Wait until the device has done all its work; RuntimeError if any of it failed."""
    gpu_backend().synchronize()


def require_device_memory(needed: int) -> None:
    """Skip unless that many bytes fit into half of the free device memory."""
    from accelbench.profiling.benchmark import Skip
    from accelbench.profiling.text import format_bytes

    free = free_memory()
    if needed > free // 2:
        raise Skip(
            f"needs {format_bytes(needed)} of device memory; half of the free {format_bytes(free)} "
            f"is {format_bytes(free / 2)}"
        )


@dataclass(frozen=True)
class _Stream:
    """A stream that another library owns, in CUDA's protocol for passing streams on."""

    handle: int

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return the protocol's version and the stream's address."""
        return 0, self.handle


@lru_cache(maxsize=8)
def cupy_stream(handle: int) -> Any:
    """Return a stream handle as a CuPy stream, to be entered with `with`; 0 is the default stream."""
    streams = cupy_library().cuda.Stream
    # The default stream is that of whichever device is current; any other belongs to the device it is first used on.
    return streams.from_external(_Stream(handle)) if handle else streams.null
