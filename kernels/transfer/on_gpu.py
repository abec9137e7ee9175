"""Copies on a given GPU: checks of the GPU and its memory, and the time by CUDA events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from accelbench.profiling.benchmark import Skip
from accelbench.profiling.devices.cupy_device import cupy_library, require_device_memory


def require_gpu(number: int, count: int) -> None:
    """Skip if there is no visible GPU with this number."""
    if number >= count:
        present = "GPU 0 is" if count == 1 else f"GPUs 0 to {count - 1} are"
        raise Skip(f"there is no GPU {number}: {present} visible")


def require_memory_of_gpu(number: int, needed: int) -> None:
    """Skip if `needed` bytes are more than half of the free memory of this GPU."""
    cuda = cupy_library().cuda
    with cuda.Device(number):
        free, _ = cuda.runtime.memGetInfo()
    require_device_memory(needed, free)


def time_copies(gpu: int, stream: Any, enqueue: Callable[[], object], copies: int) -> float:
    """Enqueue `copies` copies on a stream of a GPU and wait for them; return the seconds per copy, by CUDA events."""
    cuda = cupy_library().cuda
    with cuda.Device(gpu):  # an event must belong to the GPU of its stream
        began, ended = cuda.Event(), cuda.Event()
        began.record(stream)
        for _ in range(copies):
            enqueue()
        ended.record(stream)
        ended.synchronize()
    return float(cuda.get_elapsed_time(began, ended)) / 1e3 / copies
