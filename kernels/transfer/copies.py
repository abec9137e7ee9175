"""Synchronous copies between host and device memory, and the check that exactly the copied bytes change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from accelbench.profiling.devices.cupy_device import cupy_library, host_links, require_device_memory, synchronize
from accelbench.profiling.machine.free_memory import require_memory
from accelbench.profiling.machine.pcie import LINK_SHARE
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification

PIECE = 1 << 26
"""Bytes generated and compared at a time; bounds the additional memory."""
BEYOND = 4096
"""Bytes after the copied ones, which must not change."""


@dataclass(frozen=True)
class Way:
    """One direction: a buffer in host memory, one in device memory, and the stream of the copies."""

    to_device: bool
    host: Any
    device: Any
    stream: Any

    def enqueue(self, size: int) -> None:
        """Enqueue a copy of the first `size` bytes."""
        runtime = cupy_library().cuda.runtime
        host, device, stream = self.host.ctypes.data, self.device.data.ptr, self.stream.ptr
        if self.to_device:
            runtime.memcpyAsync(device, host, size, runtime.memcpyHostToDevice, stream)
        else:
            runtime.memcpyAsync(host, device, size, runtime.memcpyDeviceToHost, stream)

    def fill(self, data: Pieces) -> None:
        """Write the random bytes to the source, and their complement to the destination."""
        for begin, end, drawn in data:
            at_host, at_device = (drawn, ~drawn) if self.to_device else (~drawn, drawn)
            self.host[begin:end] = at_host
            self.device[begin:end].set(at_device)

    def wrong_bytes(self, data: Pieces, size: int) -> int:
        """Return the number of bytes that are wrong: not copied among the first `size`, or changed after them."""
        wrong = 0
        for begin, end, drawn in data:
            found = self.device[begin:end].get() if self.to_device else self.host[begin:end]
            wrong += wrong_in_piece(found, drawn, size - begin)
        return wrong


@dataclass(frozen=True)
class Pieces:
    """Reproducible random bytes; iteration yields them in pieces (begin, end, bytes)."""

    seed: int
    size: int

    def __iter__(self) -> Iterator[tuple[int, int, Any]]:
        rng = np.random.default_rng(self.seed)
        for begin in range(0, self.size, PIECE):
            end = min(begin + PIECE, self.size)
            yield begin, end, np.frombuffer(rng.bytes(end - begin), np.uint8)


def wrong_in_piece(found: Any, drawn: Any, copied: int) -> int:
    """Return the number of wrong bytes in a piece: other than `drawn` among the first `copied`, changed after them."""
    copied = max(0, min(copied, len(drawn)))
    wrong = np.count_nonzero(found[:copied] != drawn[:copied]) + np.count_nonzero(found[copied:] != ~drawn[copied:])
    return int(wrong)


def outcome_of_copies(wrong: int) -> Verification:
    """Return the verification of copies with this number of wrong bytes."""
    return Verification(
        passed=wrong == 0, method="random bytes, each compared", expected="0 wrong", found=f"{wrong:,} wrong"
    )


class Copies:
    """Copies with the memory and direction of a point, of any size up to its `kib`."""

    def __init__(self, point: Point) -> None:
        """Allocate and fill the buffers; Skip without enough host or device memory."""
        cupy = cupy_library()
        direction = str(point["direction"])
        ways = ("to-device", "from-device") if direction == "both" else (direction,)
        self.largest = int(point["kib"]) * 1024
        require_memory(len(ways) * self.largest)
        require_device_memory(len(ways) * self.largest)
        self.rng = point.rng()
        self.ways = [
            Way(
                to_device=way == "to-device",
                host=host_memory(str(point["memory"]), self.largest),
                device=cupy.empty(self.largest, np.uint8),
                stream=cupy.cuda.Stream(non_blocking=True),
            )
            for way in ways
        ]
        self.fill(self.largest)

    def copy(self, size: int) -> None:
        """Copy `size` bytes in each direction and wait for completion."""
        for way in self.ways:
            way.enqueue(size)
        for way in self.ways:
            way.stream.synchronize()

    def link(self) -> dict[str, Metric]:
        """Return the host link in use right after a copy, as metrics; empty if it is unknown."""
        self.copy(self.largest)
        links = host_links()
        if links is None:
            return {}
        current, best = links
        if current.bandwidth is None or best.bandwidth is None:
            return {}
        share = current.bandwidth / best.bandwidth
        return {
            "PCIe generation": Metric(current.generation),
            "PCIe lanes": Metric(current.lanes),
            LINK_SHARE: Metric(100 * share, "%"),
        }

    def fill(self, size: int) -> list[Pieces]:
        """Write fresh random bytes to each source and their complement to its destination; return the bytes."""
        data = [Pieces(int(self.rng.integers(1 << 62)), size) for _ in self.ways]
        for way, pieces in zip(self.ways, data, strict=True):
            way.fill(pieces)
        synchronize()
        return data

    def verify(self, sizes: tuple[int, ...]) -> Verification:
        """Copy fresh random bytes once for each size, and check source and destination."""
        wrong = 0
        for size in sizes:
            data = self.fill(min(size + BEYOND, self.largest))
            self.copy(size)
            wrong += sum(way.wrong_bytes(pieces, size) for way, pieces in zip(self.ways, data, strict=True))
        return outcome_of_copies(wrong)


def host_memory(memory: str, size: int) -> Any:
    """Return `size` bytes of pinned or pageable host memory."""
    if memory == "pinned":
        return np.frombuffer(cupy_library().cuda.alloc_pinned_memory(size), np.uint8, size)
    return np.empty(size, np.uint8)
