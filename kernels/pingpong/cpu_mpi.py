"""Messages by blocking MPI send and receive through mpi4py: Open MPI, MPICH, or the site's MPI library.

Bound: the link; on one host this is shared memory, through which MPI copies.
"""

from __future__ import annotations

from typing import Any

from accelbench.kernels.lib.ranks.lockstep import lockstep
from accelbench.kernels.lib.ranks.mpi_process import in_mpi_process, mpi
from accelbench.kernels.pingpong.trips import Trips, make_task, require_host_memory
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
    return make_task(point, round_trips(mpi(here)), lockstep(here), here)


def round_trips(library: Any) -> Trips:
    """Return this rank's function for round trips between rank 0 and the last rank."""
    ranks, byte = library.COMM_WORLD, library.BYTE
    first, last = ranks.rank == 0, ranks.size - 1

    def trips(payload: Any, returned: Any, loops: int) -> None:
        send, receive = ranks.Send, ranks.Recv
        there, back = [payload, byte], [returned, byte]
        for _ in range(loops):
            if first:
                send(there, last)
                receive(back, last)
            else:
                receive(there, 0)
                send(there, 0)

    return trips
