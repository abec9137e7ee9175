"""NCCL communicator of ranks with one GPU each, through CuPy."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from accelbench.kernels.lib.ranks.lockstep import Lockstep
from accelbench.profiling.benchmark import Skip
from accelbench.profiling.machine.nvidia.cuda import library
from accelbench.profiling.ranks.world import World


def require_nccl() -> None:
    """Skip if CuPy or NCCL is missing."""
    if not library("cupy.cuda.nccl").available:
        raise Skip("CuPy finds no NCCL: pip install nvidia-nccl-cu12, or nvidia-nccl-cu13 for CUDA 13")


class Communicator:
    """NCCL communicator of all ranks, over the network interface of the rendezvous."""

    def __init__(self, steps: Lockstep, here: World) -> None:
        """Connect to the other ranks; Skip if two of them have the same GPU."""
        cupy, self.here = library("cupy"), here
        self.nccl = library("cupy.cuda.nccl")
        require_own_gpus(steps.exchange(bytes(cupy.cuda.runtime.getDeviceProperties(0)["uuid"]).hex()))
        if here.interface:
            os.environ.setdefault("NCCL_SOCKET_IFNAME", here.interface)
        unique = self.nccl.get_unique_id().hex() if here.rank == 0 else None
        unique = bytes.fromhex(steps.exchange(unique)[0])
        self.group = self.nccl.NcclCommunicator(here.size, unique, here.rank)
        self.stream = cupy.cuda.Stream(non_blocking=True)

    def array(self, elements: int, dtype: Any) -> Any:
        """Return an uninitialised array on this rank's GPU."""
        return library("cupy").empty(elements, dtype)

    def put(self, array: Any, begin: int, values: Any) -> None:
        """Write host values to the array from the element `begin` on."""
        array[begin : begin + len(values)].set(values)
        self._settle()

    def get(self, array: Any, begin: int, end: int) -> Any:
        """Return the elements [begin, end) as a host array."""
        return array[begin:end].get()

    def copy(self, source: Any, target: Any) -> None:
        """Copy the source to the target, which has the same length."""
        target[...] = source
        self._settle()

    def _settle(self) -> None:
        """Wait for CuPy's stream, which writes the arrays; the communicator's stream is not ordered after it."""
        library("cupy").cuda.runtime.deviceSynchronize()


def require_own_gpus(identities: Sequence[str]) -> None:
    """Skip if two ranks have the same GPU, which NCCL rejects."""
    for rank, identity in enumerate(identities):
        first = identities.index(identity)
        if first != rank:
            raise Skip(f"NCCL requires a GPU for each rank, but ranks {first} and {rank} have the same one")
