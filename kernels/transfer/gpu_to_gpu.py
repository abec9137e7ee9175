"""Copy from the memory of one GPU to the memory of another, timed by CUDA events on the source.

Bound: the link between the GPUs (NVLink 4 of an H100: 450 GB/s per direction; PCIe 5.0 x16: 63 GB/s), or for a copy
through the host its memory and both links. Not measured yet on GPUs.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np

from accelbench.kernels.lib.gpu.device_code import DeviceKernel
from accelbench.kernels.transfer import PEER, THROUGH_HOST
from accelbench.kernels.transfer.copies import BEYOND, Pieces, outcome_of_copies, wrong_in_piece
from accelbench.kernels.transfer.on_gpu import require_gpu, require_memory_of_gpu, time_copies
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.devices.cupy_device import cupy_library
from accelbench.profiling.records.layout import Layout
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work


def device_code() -> list[DeviceKernel]:
    """Return an empty list: the copy engines need no kernel."""
    return []


def prepare(point: Point) -> Task:
    """Return the task of the copy; Skip with fewer than two GPUs, or without enough device memory."""
    pair = GpuPair(int(point["from"]), int(point["to"]), int(point["kib"]) * 1024, point.rng())
    return Task(
        run=lambda: pair.sample(1),
        verify=pair.verify,
        work=Work(bytes=pair.size),
        timer="host",
        metrics=lambda _seconds: {pair.way: Metric(1)},
        sample=pair.sample,
        layout=Layout(devices=2),
        cards=(pair.source, pair.target),
    )


class GpuPair:
    """Memory on two GPUs, and the stream of the copies on the source."""

    def __init__(self, source: int, target: int, size: int, rng: Any) -> None:
        """Allocate and fill the memory, and enable peer access if it is possible."""
        if source == target:
            raise Skip(f"GPU {source} is both ends of the copy: `stream` measures copies within a GPU")
        cupy = cupy_library()
        self.source, self.target, self.size, self._rng, self._cuda = source, target, size, rng, cupy.cuda
        count = cupy.cuda.runtime.getDeviceCount()
        if count < 2:
            raise Skip("a copy between GPUs requires two GPUs, and only one is visible")
        for gpu in (source, target):
            require_gpu(gpu, count)
            require_memory_of_gpu(gpu, size)
        with cupy.cuda.Device(target):
            self._to = cupy.empty(size, np.uint8)
        with cupy.cuda.Device(source):
            self._from, self._stream = cupy.empty(size, np.uint8), cupy.cuda.Stream(non_blocking=True)
        self.way = PEER if enable_peer_access(*sorted((source, target))) else THROUGH_HOST
        """Name of the metric of the copies' path."""
        self._fill(size)

    def sample(self, copies: int) -> float:
        """Copy all bytes `copies` times; return the seconds per copy, by CUDA events."""
        return time_copies(self.source, self._stream, partial(self._enqueue, self.size), copies)

    def verify(self) -> Verification:
        """Copy fresh random bytes, all of them and all but the last ones; compare every byte of the target."""
        wrong = 0
        for size in (max(1, self.size - BEYOND), self.size):
            pieces = self._fill(self.size)
            time_copies(self.source, self._stream, partial(self._enqueue, size), 1)
            with self._cuda.Device(self.target):
                wrong += sum(
                    wrong_in_piece(self._to[begin:end].get(), drawn, size - begin) for begin, end, drawn in pieces
                )
        return outcome_of_copies(wrong)

    def _enqueue(self, size: int) -> None:
        self._cuda.runtime.memcpyPeerAsync(
            self._to.data.ptr, self.target, self._from.data.ptr, self.source, size, self._stream.ptr
        )

    def _fill(self, size: int) -> Pieces:
        """Write fresh random bytes to the source and their complement to the target; return the bytes."""
        pieces = Pieces(int(self._rng.integers(1 << 62)), size)
        for begin, end, drawn in pieces:
            for gpu, array, values in ((self.source, self._from, drawn), (self.target, self._to, ~drawn)):
                with self._cuda.Device(gpu):
                    array[begin:end].set(values)
                    self._cuda.runtime.deviceSynchronize()
        return pieces


@cache
def enable_peer_access(first: int, second: int) -> bool:
    """Enable the access of each of two GPUs, in ascending order, to the other's memory; return whether both can.

    The result is cached, because CUDA rejects a second call for the same GPUs.
    """
    cuda = cupy_library().cuda
    ways = ((first, second), (second, first))
    if not all(cuda.runtime.deviceCanAccessPeer(gpu, peer) for gpu, peer in ways):
        return False
    for gpu, peer in ways:
        with cuda.Device(gpu):
            cuda.runtime.deviceEnablePeerAccess(peer)
    return True
