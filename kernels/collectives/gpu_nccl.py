"""Collectives by NCCL between GPUs, one of each rank, through CuPy.

Bound: the links between the GPUs (NVLink, PCIe, the network), by the bus bandwidth. Not measured yet on GPUs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from kernels.collectives.messages import message
from kernels.collectives.task import BUFFERS, Run, make_task
from kernels.device_code import DeviceKernel
from kernels.lockstep import Lockstep, lockstep
from profiling.benchmark import Skip, Task
from profiling.machine.nvidia.cuda import library, require_device_memory
from profiling.ranks.world import World, world
from profiling.records.point import Point


def device_code() -> list[DeviceKernel]:
    """Return no kernel: NCCL's own move the data."""
    return []


def prepare(point: Point) -> Task:
    """Skip where CuPy, NCCL, device memory, or a GPU for each rank is missing."""
    here = world()
    if not library("cupy.cuda.nccl").available:
        raise Skip("CuPy finds no NCCL: pip install nvidia-nccl-cu12, or nvidia-nccl-cu13 for CUDA 13")
    require_device_memory(BUFFERS * message(str(point["op"]), int(point["bytes"]), here.size).bytes)
    steps = lockstep(here)
    return make_task(point, nccl(steps), steps, here)


@lru_cache(maxsize=1)
def nccl(steps: Lockstep) -> Nccl:
    """Return the communicator of these ranks."""
    return Nccl(steps, world())


class Nccl:
    """The ranks as a communicator of NCCL, over the network interface that they know each other by."""

    trains = True
    overwrites = ("broadcast",)

    def __init__(self, steps: Lockstep, here: World) -> None:
        cupy, self._here = library("cupy"), here
        self._nccl = library("cupy.cuda.nccl")
        require_own_gpus(steps.exchange(bytes(cupy.cuda.runtime.getDeviceProperties(0)["uuid"]).hex()))
        if here.interface:
            os.environ.setdefault("NCCL_SOCKET_IFNAME", here.interface)
        unique = self._nccl.get_unique_id().hex() if here.rank == 0 else None
        unique = bytes.fromhex(steps.exchange(unique)[0])
        self._group = self._nccl.NcclCommunicator(here.size, unique, here.rank)
        self._stream = cupy.cuda.Stream(non_blocking=True)

    def empty(self, elements: int) -> Any:
        return library("cupy").empty(elements, np.float32)

    def put(self, array: Any, begin: int, values: Any) -> None:
        array[begin : begin + len(values)].set(values)
        self._settle()

    def get(self, array: Any, begin: int, end: int) -> Any:
        return array[begin:end].get()

    def copy(self, source: Any, target: Any) -> None:
        target[...] = source
        self._settle()

    def _settle(self) -> None:
        """Arrays are written on CuPy's own stream, which the communicator's does not wait for."""
        library("cupy").cuda.runtime.deviceSynchronize()

    def operation(self, op: str, source: Any, target: Any) -> Run:
        """Executions are enqueued one after the other, and waited for at their end, as nccl-tests do."""
        nccl, group, stream = self._nccl, self._group, self._stream
        following, before = (self._here.rank + 1) % self._here.size, (self._here.rank - 1) % self._here.size
        give, take, kind, to = source.data.ptr, target.data.ptr, nccl.NCCL_FLOAT32, stream.ptr

        def send_recv() -> None:
            nccl.groupStart()
            group.send(give, source.size, kind, following, to)
            group.recv(take, target.size, kind, before, to)
            nccl.groupEnd()

        once = {
            "all-reduce": lambda: group.allReduce(give, take, target.size, kind, nccl.NCCL_SUM, to),
            "all-gather": lambda: group.allGather(give, take, source.size, kind, to),
            "reduce-scatter": lambda: group.reduceScatter(give, take, target.size, kind, nccl.NCCL_SUM, to),
            "broadcast": lambda: group.broadcast(take, take, target.size, kind, 0, to),
            "send-recv": send_recv,
        }[op]

        def run(loops: int) -> None:
            for _ in range(loops):
                once()
            stream.synchronize()

        return run


def require_own_gpus(identities: Sequence[str]) -> None:
    """Skip where two ranks have the same GPU, which NCCL refuses."""
    for rank, identity in enumerate(identities):
        first = identities.index(identity)
        if first != rank:
            raise Skip(f"NCCL takes a GPU for each rank, and ranks {first} and {rank} have the same one")
