"""Messages between the memory of two GPUs by NCCL's send and receive, through CuPy.

Bound: the link between the GPUs (NVLink, PCIe, network); for small messages the launch of NCCL's kernels, one per
direction. Not measured yet on GPUs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from accelbench.kernels.lib.gpu.device_code import DeviceKernel
from accelbench.kernels.lib.ranks.lockstep import Lockstep, lockstep
from accelbench.kernels.lib.ranks.nccl import Communicator, require_nccl
from accelbench.kernels.pingpong.trips import make_task
from accelbench.profiling.benchmark import Task
from accelbench.profiling.devices.cupy_device import require_device_memory
from accelbench.profiling.ranks.world import world
from accelbench.profiling.records.point import Point

VENDORS = ("nvidia",)


def device_code() -> list[DeviceKernel]:
    """Return an empty list: all kernels are NCCL's."""
    return []


def prepare(point: Point) -> Task:
    """Return this rank's task; Skip without CuPy, NCCL, a GPU for each rank, or enough device memory."""
    here = world()
    require_nccl()
    require_device_memory(2 * int(point["bytes"]))
    steps = lockstep(here)
    messages = nccl(steps)
    return make_task(point, messages.trips, steps, here, messages)


@lru_cache(maxsize=1)
def nccl(steps: Lockstep) -> Messages:
    """Return the communicator of these ranks."""
    return Messages(steps, world())


class Messages(Communicator):
    """NCCL messages between rank 0 and the last rank."""

    def empty(self, size: int) -> Any:
        return self.array(size, np.uint8)

    def trips(self, payload: Any, returned: Any, loops: int) -> None:
        """Enqueue all round trips, then wait for the last one."""
        first, last, byte, to = self.here.rank == 0, self.here.size - 1, self.nccl.NCCL_UINT8, self.stream.ptr
        for _ in range(loops):
            if first:
                self.group.send(payload.data.ptr, payload.size, byte, last, to)
                self.group.recv(returned.data.ptr, returned.size, byte, last, to)
            else:
                self.group.recv(payload.data.ptr, payload.size, byte, 0, to)
                self.group.send(payload.data.ptr, payload.size, byte, 0, to)
        self.stream.synchronize()
