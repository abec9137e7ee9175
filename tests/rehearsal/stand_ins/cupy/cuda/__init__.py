"""Stand-in for CuPy's streams, graphs and runtime calls on the simulated driver; array operations are not captured.

`ExternalStream` is missing, since a future CuPy removes it.
"""

from __future__ import annotations

import ctypes
from time import perf_counter
from types import SimpleNamespace
from typing import Any

from cuda.bindings import driver

_stack = [0]


def checked(answer: tuple[Any, ...]) -> Any:
    """Return the result of a call to the driver or NVRTC; RuntimeError with the name of its error."""
    error, *results = answer
    if int(error) != 0:
        raise RuntimeError(f"{type(error).__name__}: {error.name}")
    return results[0] if results else None


def current_stream() -> int:
    return _stack[-1]


class Stream:
    def __init__(self, null: bool = False, non_blocking: bool = False, ptr: int | None = None) -> None:
        self.ptr = int(checked(driver.cuStreamCreate(1))) if ptr is None else ptr

    @classmethod
    def from_external(cls, stream: Any) -> Stream:
        """Return a stream from another library's object, by the protocol `__cuda_stream__`."""
        version, ptr = stream.__cuda_stream__()
        if version != 0:
            raise RuntimeError(f"unknown version {version} of __cuda_stream__")
        return cls(ptr=ptr)

    def __enter__(self) -> Stream:
        _stack.append(self.ptr)
        return self

    def __exit__(self, *_: object) -> None:
        _stack.pop()

    def synchronize(self) -> None:
        checked(driver.cuStreamSynchronize(self.ptr))

    def begin_capture(self, mode: int | None = None) -> None:
        checked(driver.cuStreamBeginCapture(self.ptr, driver.CUstreamCaptureMode(mode or 0)))

    def end_capture(self) -> Any:
        graph = checked(driver.cuStreamEndCapture(self.ptr))
        instance = checked(driver.cuGraphInstantiate(graph, 0))
        return SimpleNamespace(launch=lambda stream: checked(driver.cuGraphLaunch(instance, stream.ptr)))


Stream.null = Stream(ptr=0)  # type: ignore[attr-defined]


class Event:
    """Time on the host's clock."""

    def record(self, stream: Stream) -> None:
        self.moment = perf_counter()

    def synchronize(self) -> None: ...


def get_elapsed_time(begin: Event, end: Event) -> float:
    return 1e3 * (end.moment - begin.moment)


class Device:
    def __init__(self, device: int = 0) -> None:
        self.id, self.cublas_handle = device, 0xB1A5

    def use(self) -> None: ...


def alloc_pinned_memory(size: int) -> Any:
    return (ctypes.c_char * size)()


def _copy(to: int, source: int, size: int, kind: int, stream: int) -> None:
    checked(driver.cuMemcpyAsync(to, source, size, stream))


runtime = SimpleNamespace(
    is_hip=False,
    memcpyAsync=_copy,
    memcpyHostToDevice=1,
    memcpyDeviceToHost=2,
    memcpyDeviceToDevice=3,
    streamCaptureModeGlobal=0,
    getDeviceCount=lambda: 1,
    getDeviceProperties=lambda device: {"name": b"NVIDIA H100 80GB HBM3 (PTX interpreter, no GPU)"},
    deviceSynchronize=lambda: checked(driver.cuCtxSynchronize()),
    runtimeGetVersion=lambda: 13000,
)
__all__ = ["Device", "Event", "Stream", "alloc_pinned_memory", "current_stream", "get_elapsed_time", "runtime"]
