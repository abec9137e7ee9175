"""Collectives by NCCL between the GPUs of ranks with one GPU each, through CuPy.

Bound: the links between the GPUs (NVLink, PCIe, network); compare with `bus_bandwidth`. Not measured yet on GPUs.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

import numpy as np

from accelbench.kernels.collectives import LIBRARY
from accelbench.kernels.collectives.messages import ITEMSIZE, message
from accelbench.kernels.collectives.task import BUFFERS, Run, make_task
from accelbench.kernels.lib.gpu.device_code import DeviceKernel
from accelbench.kernels.lib.ranks.lockstep import Lockstep, lockstep
from accelbench.kernels.lib.ranks.nccl import Communicator, require_nccl
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.devices.cupy_device import require_device_memory
from accelbench.profiling.ranks.world import World, world
from accelbench.profiling.records.point import Point

VENDORS = ("nvidia",)
OPERATIONS = {"ring": ("all-reduce", "all-gather", "reduce-scatter", "broadcast"), "tree": ("all-reduce",)}
"""Operations of each algorithm of NCCL (`ncclTopoTuneModel` in NVIDIA/nccl, `src/graph/tuning.cc`)."""
GPUDIRECT: dict[str, dict[str, str]] = {
    LIBRARY: {},
    "on": {
        "NCCL_P2P_DISABLE": "0",
        "NCCL_P2P_LEVEL": "SYS",
        "NCCL_NET_GDR_LEVEL": "SYS",
        "NCCL_NET_GDR_READ": "1",
    },
    "off": {
        "NCCL_P2P_LEVEL": "LOC",
        "NCCL_NVLS_ENABLE": "0",
        "NCCL_NET_GDR_LEVEL": "LOC",
        "NCCL_NET_GDR_C2C": "0",
    },
}
"""Environment variables of NCCL by value of `gpudirect`: between the GPUs of a node, then between GPU and network card.

Levels are the largest permitted distance in the topology: none (LOC) or any (SYS). NVLink SHARP and GDR_C2C are
independent of the levels (NCCL's user guide, "Environment Variables").
"""


def device_code() -> list[DeviceKernel]:
    """Return an empty list: all kernels are NCCL's."""
    return []


def prepare(point: Point) -> Task:
    """Return this rank's task; Skip without CuPy, NCCL, a GPU for each rank, the algorithm, or enough device memory."""
    here, algorithm = world(), str(point.params.get("algorithm", LIBRARY))
    require_algorithm(str(point["op"]), algorithm)
    gpudirect = str(point.params.get("gpudirect", LIBRARY))
    require_nccl()
    require_device_memory(BUFFERS * message(str(point["op"]), int(point["bytes"]), here.size).bytes)
    steps = lockstep(here)
    return make_task(point, nccl(steps, algorithm, gpudirect), steps, here)


def require_algorithm(op: str, algorithm: str) -> None:
    """Skip if NCCL lacks the algorithm for the operation."""
    if algorithm != LIBRARY and op not in OPERATIONS[algorithm]:
        raise Skip(f"NCCL has no {algorithm} algorithm for {op}, only for {', '.join(OPERATIONS[algorithm])}")


@lru_cache(maxsize=1)
def nccl(steps: Lockstep, algorithm: str, gpudirect: str) -> Nccl:
    """Return the communicator of these ranks."""
    return Nccl(steps, world(), algorithm, gpudirect)


class Nccl(Communicator):
    """Collectives of an NCCL communicator."""

    overwrites = ("broadcast",)

    def __init__(self, steps: Lockstep, here: World, algorithm: str = LIBRARY, gpudirect: str = LIBRARY) -> None:
        chosen = GPUDIRECT[gpudirect] | ({} if algorithm == LIBRARY else {"NCCL_ALGO": algorithm})
        os.environ.update(chosen)  # read when this process, which measures one point, first uses NCCL
        self.trains = not chosen
        super().__init__(steps, here)

    def empty(self, elements: int) -> Any:
        return self.array(elements, np.float32)

    def operation(self, op: str, source: Any, target: Any) -> Run:
        """Return the function that enqueues all executions and then waits once, as nccl-tests do."""
        nccl, group, stream = self.nccl, self.group, self.stream
        following, before = (self.here.rank + 1) % self.here.size, (self.here.rank - 1) % self.here.size
        give, take, kind, to = source.data.ptr, target.data.ptr, nccl.NCCL_FLOAT32, stream.ptr

        def send_recv() -> None:
            nccl.groupStart()
            group.send(give, source.size, kind, following, to)
            group.recv(take, target.size, kind, before, to)
            nccl.groupEnd()

        def all_to_all() -> None:
            """Send and receive the parts of all ranks in one group, as nccl-tests do."""
            part = source.size // self.here.size
            nccl.groupStart()
            for rank in range(self.here.size):
                offset = rank * part * ITEMSIZE
                group.send(give + offset, part, kind, rank, to)
                group.recv(take + offset, part, kind, rank, to)
            nccl.groupEnd()

        once = {
            "all-reduce": lambda: group.allReduce(give, take, target.size, kind, nccl.NCCL_SUM, to),
            "all-gather": lambda: group.allGather(give, take, source.size, kind, to),
            "reduce-scatter": lambda: group.reduceScatter(give, take, target.size, kind, nccl.NCCL_SUM, to),
            "broadcast": lambda: group.broadcast(take, take, target.size, kind, 0, to),
            "send-recv": send_recv,
            "all-to-all": all_to_all,
        }[op]

        def run(loops: int) -> None:
            for _ in range(loops):
                once()
            stream.synchronize()

        return run
