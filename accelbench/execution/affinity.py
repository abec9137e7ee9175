"""CPU affinity of worker processes, and the number of usable cores."""

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
"""Environment variables that set the number or placement of threads; if one is set, the affinity is not changed."""

ONE_THREAD = "kernels use one thread per core, and these CPUs share a core with a CPU in use"
KEPT_TO_SOME = "the point is limited to some host cores"


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return granted(count_usable(), collect_cpu_quota())


def granted(cores: int, quota: float | None) -> int:
    """Return the number of cores, limited by the CPU quota in cores (None: no quota)."""
    return cores if quota is None else min(cores, max(1, int(quota)))


@contextmanager
def limited_to_cores(cores: int | None) -> Iterator[None]:
    """Limit processes started in this block to `cores` CPUs, on distinct cores if possible; None sets no limit."""
    if cores is None:
        yield
        return
    # Frameworks size their thread pools at import, and threads keep the mask they started with: a process has to start
    # with the mask.
    with on_cpus(cores_before_threads(os.sched_getaffinity(0))[:cores]):
        yield


@contextmanager
def limited_to_one_thread_per_core(environment: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Limit processes started in this block to one logical CPU per core, unless the user set the threads.

    Two threads of a core share its arithmetic units and caches. A kernel that saturates the units gains nothing from
    the second thread, and its cache-sized buffers would exceed the cache.
    """
    if not hasattr(os, "sched_setaffinity") or any(name in environment for name in CHOSEN_BY_USER):
        yield
        return
    with on_cpus(one_thread_per_core(os.sched_getaffinity(0))):
        yield


def with_unused_cpus(record: Record, cpus: Iterable[int] | None, begun_on: Iterable[int] | None) -> Record:
    """Return the record with the CPUs of the run that its process could not use at its start, and the reason.

    `cpus` are the CPUs of the run, `begun_on` the CPUs of the process at its start (a library may bind threads later).
    A record of several ranks is returned unchanged: the ranks of a host share its CPUs.
    """
    idle = sorted(set(cpus or []) - set(begun_on or cpus or []))
    if record.placement is None or record.layout.processes > 1 or not idle:
        return record
    kept = record.point.host_cores is not None
    reason = KEPT_TO_SOME if kept else ONE_THREAD
    placement = record.placement.model_copy(update={"left_out": idle, "left_out_because": reason})
    return record.model_copy(update={"placement": placement})


def cores_missing(needed: int | None) -> str | None:
    """Return the reason why a process cannot be limited to the needed number of cores; None if it can, or for None."""
    if needed is None:
        return None
    if not hasattr(os, "sched_setaffinity"):
        return "limiting a process to some cores requires Linux"
    available = usable_cores()
    if needed <= available:
        return None
    return f"{needed} host cores are required, and this process may use {available}"


def require_cores(plan: Iterable[Point]) -> None:
    """Raise UserError if a point needs more host cores than this process may use."""
    if missing := cores_missing(max((point.host_cores for point in plan if point.host_cores), default=None)):
        raise UserError(missing)
