"""Simulated node with several GPUs, as CuPy presents it: memory, streams, events and copies between the GPUs.

The simulation follows CUDA's rules: a stream, an event and an array belong to the device that was current when they
were made; an event is recorded on a stream of its own device; a copy is executed as late as possible, when its stream
is waited for; peer access is enabled once, and only where it is possible.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace
from typing import Any

from tests.kernels import host_cupy


@dataclass
class NodeStream:
    """Stream of one GPU, with its own clock in seconds."""

    device: int
    ptr: int
    now: float = 0.0
    queue: list[Callable[[], object]] = field(default_factory=list)

    def synchronize(self) -> None:
        for work in self.queue:
            work()
        self.queue.clear()


class NodeEvent:
    """Event of one GPU."""

    def __init__(self, device: int) -> None:
        self.device, self.at, self.is_complete = device, 0.0, False
        self.stream: NodeStream | None = None

    def record(self, stream: NodeStream) -> None:
        assert stream.device == self.device, "an event of another device"
        self.stream, self.at = stream, stream.now

    def synchronize(self) -> None:
        assert self.stream
        self.stream.synchronize()
        self.is_complete = True


@dataclass
class GpuNode:
    """Simulated node: bandwidths in byte/s, slower than the copies on the host, and the pairs without peer access."""

    gpus: int = 2
    peer: float = 40e6
    host: float = 10e6
    """Bandwidth of a copy through the host, and between host and GPU."""
    apart: Collection[frozenset[int]] = ()
    """Pairs of GPUs without peer access."""
    free: int = 1 << 30
    lose: int = 0
    """Number of bytes at the end of every copy that are not copied; negative for further ones, within the array."""

    def __post_init__(self) -> None:
        self.current = [0]
        self.enabled: set[tuple[int, int]] = set()
        self.locked: set[int] = set()
        self.streams: dict[int, NodeStream] = {}
        self.owners: dict[int, int] = {}
        """GPU of each array by its address."""
        self.arrays: list[Any] = []
        self._pointers = count(1)
        runtime = SimpleNamespace(
            getDeviceCount=lambda: self.gpus,
            deviceCanAccessPeer=lambda gpu, peer: int(frozenset({gpu, peer}) not in self.apart),
            deviceEnablePeerAccess=self._enable,
            deviceSynchronize=lambda: None,
            memGetInfo=lambda: (self.free, self.free),
            memcpyPeerAsync=self._copy_peer,
            memcpyAsync=self._copy,
            memcpyHostToDevice="to-device",
            memcpyDeviceToHost="from-device",
            hostRegister=lambda address, size, flags: self.locked.add(address),
            hostUnregister=self.locked.remove,
        )
        cuda = SimpleNamespace(
            runtime=runtime,
            Device=self._device,
            Stream=self._stream,
            Event=lambda: NodeEvent(self.current[-1]),
            get_elapsed_time=self._elapsed_ms,
        )
        self.cupy = SimpleNamespace(empty=self._empty, cuda=cuda)

    def _device(self, number: int) -> Any:
        node = self

        class Current:
            def __enter__(self) -> None:
                assert 0 <= number < node.gpus
                node.current.append(number)

            def __exit__(self, *_: object) -> None:
                node.current.pop()

        return Current()

    def _stream(self, non_blocking: bool) -> NodeStream:
        assert non_blocking, "a blocking stream"
        made = NodeStream(self.current[-1], next(self._pointers))
        return self.streams.setdefault(made.ptr, made)

    def _empty(self, size: int, dtype: Any) -> Any:
        made = host_cupy.empty(size, dtype)
        self.arrays.append(made)
        self.owners[made.ctypes.data] = self.current[-1]
        return made

    def _enable(self, peer: int) -> None:
        way = (self.current[-1], peer)
        assert way not in self.enabled, "cudaErrorPeerAccessAlreadyEnabled"
        assert frozenset(way) not in self.apart, "cudaErrorPeerAccessUnsupported"
        self.enabled.add(way)

    def _copy_peer(self, target: int, to: int, source: int, origin: int, size: int, stream: int) -> None:
        assert (self.owners[target], self.owners[source]) == (to, origin), "memory of another device"
        direct = {(origin, to), (to, origin)} <= self.enabled
        self._enqueue(target, source, size, stream, self.peer if direct else self.host)

    def _copy(self, target: int, source: int, size: int, kind: str, stream: int) -> None:
        host, device = (source, target) if kind == "to-device" else (target, source)
        assert host in self.locked, "pageable memory"
        assert self.owners[device] == self.streams[stream].device
        self._enqueue(target, source, size, stream, self.host)

    def _enqueue(self, target: int, source: int, size: int, stream: int, bandwidth: float) -> None:
        on = self.streams[stream]
        on.now += size / bandwidth
        room = min((array.nbytes for array in self.arrays if array.ctypes.data in (target, source)), default=size)
        on.queue.append(lambda: ctypes.memmove(target, source, max(0, min(size - self.lose, room))))

    def _elapsed_ms(self, began: NodeEvent, ended: NodeEvent) -> float:
        assert ended.is_complete, "an event that was not waited for"
        return (ended.at - began.at) * 1e3
