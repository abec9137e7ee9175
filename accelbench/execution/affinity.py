"""The cores that processes run on: how many there are, and keeping what is started to some of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from accelbench.errors import UserError
from accelbench.profiling.machine.environment.cpu import cores_before_threads, count_usable, one_thread_per_core
from accelbench.profiling.machine.environment.limits import collect_cpu_quota
from accelbench.profiling.machine.placement import on_cpus
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record

CHOSEN_BY_USER = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")
"""The variables by which a user says how many threads there are to be, or where; nothing is chosen beside them."""

ONE_THREAD = "kernels have one thread a core, and these CPUs share a core with one in use"
KEPT_TO_SOME = "the point is kept to some of the host's cores"


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return granted(count_usable(), collect_cpu_quota())


def granted(cores: int, quota: float | None) -> int:
    """Return how many of these cores a CPU quota has time for."""
    return cores if quota is None else min(cores, max(1, int(quota)))


@contextmanager
def kept_to(cores: int | None) -> Iterator[None]:
    """Keep what is started here to so many CPUs, each on a core of its own if there are as many; None leaves it all."""
    if cores is None:
        yield
        return
    # Frameworks size their thread pools when they are imported, and threads keep the mask they were born with, so that
    # a process has to begin with it.
    with on_cpus(cores_before_threads(os.sched_getaffinity(0))[:cores]):
        yield


@contextmanager
def one_thread_a_core(environment: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Keep what is started here to one logical CPU of each core, unless the user has chosen the threads.

    Two threads of a core share its arithmetic units and its caches: a kernel that keeps these busy gains nothing by the
    second one, and every buffer that a thread cuts for a cache is twice what the cache has room for.
    """
    if not hasattr(os, "sched_setaffinity") or any(name in environment for name in CHOSEN_BY_USER):
        yield
        return
    with on_cpus(one_thread_per_core(os.sched_getaffinity(0))):
        yield


def with_left_out(record: Record, there: Iterable[int] | None, begun_on: Iterable[int] | None) -> Record:
    """Return the record with the CPUs of the run that its process was kept from when it began, and why.

    `there` are the run's, `begun_on` the process's: a library may bind threads later. Ranks of one host divide it among
    them, and leave nothing out.
    """
    idle = sorted(set(there or []) - set(begun_on or there or []))
    if record.placement is None or record.layout.processes > 1 or not idle:
        return record
    kept = record.point.host_cores is not None
    reason = KEPT_TO_SOME if kept else ONE_THREAD
    placement = record.placement.model_copy(update={"left_out": idle, "left_out_because": reason})
    return record.model_copy(update={"placement": placement})


def cores_missing(wanted: int | None) -> str | None:
    """Return why no process can be kept to so many cores here; None where one can, or is to have all of them."""
    if wanted is None:
        return None
    if not hasattr(os, "sched_setaffinity"):
        return "this system cannot keep a process to some of its cores: that needs Linux"
    there = usable_cores()
    return f"{wanted} host cores are wanted, and this process may use {there}" if wanted > there else None


def require_cores(plan: Iterable[Point]) -> None:
    """Raise UserError unless the workers of these points can have their cores here."""
    if missing := cores_missing(max((point.host_cores for point in plan if point.host_cores), default=None)):
        raise UserError(missing)
