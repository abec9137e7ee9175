"""Placement of the measuring thread: the CPUs it runs on, and pinning for points that use one core."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType

from accelbench.profiling.machine.cpu_probe import slower_cpus
from accelbench.profiling.machine.environment.core_kinds import fastest_usable
from accelbench.profiling.machine.environment.cpu import collect_affinity
from accelbench.profiling.machine.environment.files import format_cpu_list
from accelbench.profiling.records.environment import CoreKind
from accelbench.profiling.records.telemetry import Placement


def current_cpu() -> int | None:
    """Return the CPU on which this thread runs (sched_getcpu(3)); None if the system does not support it."""
    if sys.platform != "linux":
        return None
    number: int = ctypes.CDLL(None).sched_getcpu()
    return number if number >= 0 else None


@contextmanager
def on_cpus(cpus: Iterable[int]) -> Iterator[None]:
    """Pin the calling thread, and threads and processes it starts, to these CPUs during the block."""
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, everywhere)


def cpu_for_one_core(bandwidths: Mapping[int, float], kinds: Sequence[CoreKind] = ()) -> int | None:
    """Return the CPU to which a single-core point is pinned; None if threads cannot be pinned.

    It is the current CPU, which the scheduler chose with regard to other load. It is the fastest usable CPU in the
    probe instead if the current one was slower or is not of the fastest usable kind of core.
    """
    here, allowed = current_cpu(), collect_affinity()
    if here is None or allowed is None:
        return None
    fastest = fastest_usable(kinds, allowed)
    candidates = [cpu for cpu in allowed if fastest is None or cpu in fastest.cpus]
    known = {cpu: rate for cpu, rate in bandwidths.items() if cpu in candidates}
    if here in candidates and here not in slower_cpus(known):
        return here
    return max(known, key=known.__getitem__, default=candidates[0])


class ThreadPlacement:
    """CPUs of the calling thread during a `with` block; the thread is pinned if a CPU is given."""

    def __init__(self, cpu: int | None = None) -> None:
        self._cpu = cpu
        self.placement = Placement()

    def __enter__(self) -> ThreadPlacement:
        self._before = collect_affinity()
        if self._cpu is not None:
            os.sched_setaffinity(0, {self._cpu})
        self.placement = Placement(first=current_cpu(), allowed=collect_affinity(), pinned=self._cpu is not None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.placement = self.placement.model_copy(update={"last": current_cpu()})
        if self._cpu is not None and self._before is not None:
            os.sched_setaffinity(0, self._before)


def slow_cpu_flags(placement: Placement, bandwidths: Mapping[int, float]) -> list[str]:
    """Return a noise flag if a single-core point ran on a CPU that the probe found to be slower, else an empty list."""
    slow = slower_cpus(bandwidths)
    ran_on = sorted({cpu for cpu in (placement.first, placement.last) if cpu in slow})
    if not ran_on:
        return []
    most = max(slow[cpu] for cpu in ran_on)
    cpus = f"CPU{'s' * (len(ran_on) > 1)} {format_cpu_list(ran_on)}"
    return [f"ran on {cpus}, ×{most:.2f} slower than the fastest CPU in the probe at the start of the run"]
