"""Stand-in for CuPy's streams, graphs and runtime calls: every operation is complete when enqueued.

`ExternalStream` is missing, since a future CuPy removes it.
"""

from __future__ import annotations

import ctypes
from time import perf_counter
from types import SimpleNamespace
from typing import Any

_stack = [0]


def current_stream() -> int:
    return _stack[-1]


class Stream:
    def __init__(self, null: bool = False, non_blocking: bool = False, ptr: int = 0x5500) -> None:
        self.ptr = ptr

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

    def synchronize(self) -> None: ...

    def begin_capture(self, mode: int | None = None) -> None: ...

    def end_capture(self) -> Any:
        return SimpleNamespace(launch=lambda stream: None)


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
    ctypes.memmove(to, source, size)


runtime = SimpleNamespace(
    is_hip=False,
    memcpyAsync=_copy,
    memcpyHostToDevice=1,
    memcpyDeviceToHost=2,
    memcpyDeviceToDevice=3,
    streamCaptureModeGlobal=0,
    getDeviceCount=lambda: 1,
    getDeviceProperties=lambda device: {"name": b"NVIDIA H100 80GB HBM3"},
    deviceSynchronize=lambda: None,
    runtimeGetVersion=lambda: 13000,
)
__all__ = ["Device", "Event", "Stream", "alloc_pinned_memory", "current_stream", "get_elapsed_time", "runtime"]
