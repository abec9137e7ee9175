"""Copy between page-locked memory of one memory node (NUMA) of the host and a GPU, timed by CUDA events.

Bound: the link of the GPU (PCIe 4.0 x16: 32 GB/s per direction, 5.0: 63 GB/s) and, from another node, the link between
the sockets. Not measured yet on a GPU.
"""

from __future__ import annotations

import weakref
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from accelbench.kernels.lib.cpu.huge_pages import huge_empty
from accelbench.kernels.lib.cpu.placing import fill_on_node, share_on_node
from accelbench.kernels.lib.cpu.topology import route_from_device
from accelbench.kernels.lib.gpu.device_code import DeviceKernel
from accelbench.kernels.transfer import LOCAL
from accelbench.kernels.transfer.copies import BEYOND, Pieces, Way, outcome_of_copies
from accelbench.kernels.transfer.on_gpu import require_gpu, require_memory_of_gpu, time_copies
from accelbench.profiling.benchmark import Task
from accelbench.profiling.devices import gpu_backend
from accelbench.profiling.devices.cupy_device import cupy_library
from accelbench.profiling.machine.environment.files import read_int
from accelbench.profiling.machine.free_memory import require_memory
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work


def device_code() -> list[DeviceKernel]:
    """Return an empty list: the copy engines need no kernel."""
    return []


def prepare(point: Point) -> Task:
    """Return the task of the copy; Skip if the node or the GPU does not exist, or without enough memory."""
    gpu, node = int(point["gpu"]), int(point["node"])
    copies = NodeCopies(gpu, node, str(point["direction"]) == "to-device", int(point["kib"]) * 1024, point.rng())
    share, attached = share_on_node(copies.way.host, node), node_of_gpu(gpu)
    metrics = {} if share is None else {"on the node": Metric(100 * share, "%")}
    metrics |= {LOCAL: Metric(1)} if attached == node else {}
    return Task(
        run=lambda: copies.sample(1),
        verify=copies.verify,
        work=Work(bytes=copies.size),
        timer="host",
        metrics=lambda _seconds: metrics,
        sample=copies.sample,
        cards=(gpu,),
    )


class NodeCopies:
    """Page-locked memory on a node, memory of a GPU, and the stream of the copies."""

    def __init__(self, gpu: int, node: int, to_device: bool, size: int, rng: Any) -> None:
        """Allocate and fill the memory; Skip if node or GPU do not exist, or without enough memory."""
        cupy = cupy_library()
        self.gpu, self.size, self._rng, self._cuda = gpu, size, rng, cupy.cuda
        require_gpu(gpu, cupy.cuda.runtime.getDeviceCount())
        route = route_from_device(node)
        require_memory(size)
        require_memory_of_gpu(gpu, size)
        host = huge_empty(size, np.uint8)
        fill_on_node(host, 0, route)
        with cupy.cuda.Device(gpu):
            cupy.cuda.runtime.hostRegister(host.ctypes.data, size, 0)
            # The memory is unlocked before it is freed; at the end of the process the driver does both.
            weakref.finalize(self, _unlock, cupy.cuda.runtime, host).atexit = False
            self.way = Way(to_device, host, cupy.empty(size, np.uint8), cupy.cuda.Stream(non_blocking=True))
        self._fill()

    def sample(self, copies: int) -> float:
        """Copy all bytes `copies` times; return the seconds per copy, by CUDA events."""
        return time_copies(self.gpu, self.way.stream, partial(self.way.enqueue, self.size), copies)

    def verify(self) -> Verification:
        """Copy fresh random bytes, all of them and all but the last ones; compare every byte of the destination."""
        wrong = 0
        for size in (max(1, self.size - BEYOND), self.size):
            pieces = self._fill()
            time_copies(self.gpu, self.way.stream, partial(self.way.enqueue, size), 1)
            with self._cuda.Device(self.gpu):
                wrong += self.way.wrong_bytes(pieces, size)
        return outcome_of_copies(wrong)

    def _fill(self) -> Pieces:
        """Write fresh random bytes to the source and their complement to the destination; return the bytes."""
        pieces = Pieces(int(self._rng.integers(1 << 62)), self.size)
        with self._cuda.Device(self.gpu):
            self.way.fill(pieces)
            self._cuda.runtime.deviceSynchronize()
        return pieces


def _unlock(runtime: Any, host: Any) -> None:
    runtime.hostUnregister(host.ctypes.data)


def node_of_gpu(number: int, root: Path = Path("/")) -> int | None:
    """Return the memory node that a GPU is attached to, by its PCI address; None if unknown."""
    addresses = gpu_backend().cards(number + 1)
    if number >= len(addresses):
        return None
    node = read_int(root / "sys/bus/pci/devices" / addresses[number].lower() / "numa_node")
    return node if node is not None and node >= 0 else None
