"""Collectives by gloo, PyTorch's backend for CPUs, through `torch.distributed`.

Bound: the link between the ranks; on one host this is TCP over the loopback interface, that is, copies by the kernel.

Measured between two hosts with 1 Gbit/s, bus bandwidth as a share of the TCP bandwidth of the link: `all-reduce`,
`broadcast` and `send-recv` 0.99–1.00, `all-gather` 0.66, `reduce-scatter` 0.47, because PyTorch 2.13 reduces the
complete message on every rank and keeps a part.
"""

from __future__ import annotations

import os
from functools import lru_cache
from types import ModuleType
from typing import Any

from accelbench.kernels.collectives.task import HostArrays, Run, make_task, require_host_memory
from accelbench.kernels.lib.pytorch import pytorch
from accelbench.kernels.lib.ranks.lockstep import Lockstep, lockstep
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.ranks.channel import Address
from accelbench.profiling.ranks.rendezvous import listen
from accelbench.profiling.ranks.world import World, world
from accelbench.profiling.records.point import Point


def torch_distributed() -> ModuleType:
    """Return `torch.distributed`; Skip if it is missing or has no gloo."""
    distributed = pytorch("torch.distributed")
    if not distributed.is_available() or not distributed.is_gloo_available():
        raise Skip("this build of PyTorch has no gloo")
    return distributed


def prepare(point: Point) -> Task:
    """Return this rank's task; Skip without PyTorch or enough memory."""
    here = world()
    torch_distributed()
    require_host_memory(point, here)
    steps = lockstep(here)
    return make_task(point, gloo(steps), steps, here)


@lru_cache(maxsize=1)
def gloo(steps: Lockstep) -> Gloo:
    """Return the process group of these ranks, one per process for all points."""
    return Gloo(steps, world())


class Gloo(HostArrays):
    """Process group of gloo over the network interface of the rendezvous."""

    trains = True
    overwrites = ("all-reduce", "broadcast")

    def __init__(self, steps: Lockstep, here: World) -> None:
        self._distributed = distributed = torch_distributed()
        self._here = here
        if here.interface:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", here.interface)
        host = Address.parse(here.addresses[0]).host
        # PyTorch's store would listen on all addresses of the host; this socket listens on one.
        listener = listen(Address(host, 0)) if here.rank == 0 else None
        port = steps.exchange(listener and listener.getsockname()[1])[0]
        own = listener.detach() if listener else None
        store = distributed.TCPStore(
            host, port, here.size, own is not None, wait_for_workers=False, master_listen_fd=own
        )
        distributed.init_process_group("gloo", store=store, rank=here.rank, world_size=here.size)

    def operation(self, op: str, source: Any, target: Any) -> Run:
        torch, distributed = pytorch(), self._distributed
        give, take = torch.from_numpy(source), torch.from_numpy(target)
        following, before = (self._here.rank + 1) % self._here.size, (self._here.rank - 1) % self._here.size

        def send_recv() -> None:
            arriving = distributed.irecv(take, before)  # first, so that gloo sends and receives concurrently
            distributed.send(give, following)
            arriving.wait()

        # PyTorch 2.13 renamed these two functions.
        all_gather = getattr(distributed, "all_gather_single", None) or distributed.all_gather_into_tensor
        reduce_scatter = getattr(distributed, "reduce_scatter_single", None) or distributed.reduce_scatter_tensor
        once = {
            "all-reduce": lambda: distributed.all_reduce(take),
            "all-gather": lambda: all_gather(take, give),
            "reduce-scatter": lambda: reduce_scatter(take, give),
            "broadcast": lambda: distributed.broadcast(take, 0),
            "send-recv": send_recv,
            "all-to-all": lambda: distributed.all_to_all_single(take, give),
        }[op]

        def run(loops: int) -> None:
            for _ in range(loops):
                once()

        return run
