"""Collectives by MPI through mpi4py: Open MPI, MPICH, or the site's MPI library.

Bound: the link between the ranks; on one host this is shared memory, through which MPI copies.
"""

from __future__ import annotations

from typing import Any

from accelbench.kernels.collectives.task import HostArrays, Run, make_task, require_host_memory
from accelbench.kernels.lib.ranks.lockstep import lockstep
from accelbench.kernels.lib.ranks.mpi_process import in_mpi_process, mpi
from accelbench.profiling.benchmark import Task
from accelbench.profiling.ranks.world import world
from accelbench.profiling.records.point import Point


def prepare(point: Point) -> Task:
    """Return this rank's task; Skip without mpi4py, an MPI launcher, or enough memory."""
    require_host_memory(point, world())
    return in_mpi_process(__name__, point)


def prepare_in_mpi(point: Point) -> Task:
    """Return this rank's task; called in the rank's MPI process."""
    here = world()
    engine = Mpi(mpi(here))
    return make_task(point, engine, lockstep(here), here)


class Mpi(HostArrays):
    """Ranks of MPI_COMM_WORLD."""

    def __init__(self, library: Any) -> None:
        self._mpi = library

    def operation(self, op: str, source: Any, target: Any) -> Run:
        world = self._mpi.COMM_WORLD
        give, take = [source, self._mpi.FLOAT], [target, self._mpi.FLOAT]
        following, before = (world.rank + 1) % world.size, (world.rank - 1) % world.size
        call, arguments = {
            "all-reduce": (world.Allreduce, (give, take)),
            "all-gather": (world.Allgather, (give, take)),
            "reduce-scatter": (world.Reduce_scatter_block, (give, take)),
            "broadcast": (world.Bcast, (take, 0)),
            "send-recv": (world.Sendrecv, (give, following, 0, take, before)),
            "all-to-all": (world.Alltoall, (give, take)),
        }[op]

        def run(loops: int) -> None:
            for _ in range(loops):
                call(*arguments)

        return run
