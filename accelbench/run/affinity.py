"""The cores that processes run on: how many there are, and keeping what is started to some of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from accelbench.errors import UserError
from profiling.machine.environment.cpu import cores_before_threads, count_usable
from profiling.machine.environment.limits import collect_cpu_quota
from profiling.machine.placement import on_cpus
from profiling.records.point import Point


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
