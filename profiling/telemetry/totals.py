"""Counters of the kernel for this machine and process, and their differences over a measurement.

Sources: proc(5), getrusage(2), Linux `Documentation/scheduler/sched-stats.rst`, cgroup-v2.rst, powercap.rst.
"""

from __future__ import annotations

import resource
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import psutil

from accelbench.profiling.machine.environment.cpu import collect_energy, collect_throttle_count
from accelbench.profiling.machine.environment.files import read_pairs, read_text
from accelbench.profiling.machine.environment.limits import Throttling, collect_throttling, throttled_between

PAGE_BYTES = resource.getpagesize()


@dataclass(frozen=True)
class Totals:
    """All counters at one time."""

    wall_s: float
    counters: Mapping[str, float]
    """The totals by their names in the telemetry record."""
    waits_s: Mapping[int, float]
    """The seconds that each thread was ready to run while no CPU was free."""
    energy_uj: Mapping[str, tuple[int, int]]
    """The energy counter of each CPU package in µJ, and the value after which it starts anew."""
    throttling: Mapping[Path, Throttling] = field(default_factory=dict)
    """The throttling by the CPU quota of each control group that the process is in."""


def read_totals(root: Path = Path("/")) -> Totals:
    """Read all totals now; what cannot be read is left out."""
    counters = read_cpu_time()
    for collect in (read_own_time, read_usage, read_swapping, read_heat):
        counters |= collect(root)
    waits = {thread: schedule.wait_s for thread, schedule in read_schedules(root).items()}
    return Totals(perf_counter(), counters, waits, collect_energy(root), collect_throttling(root))


def difference(begin: Totals, end: Totals) -> dict[str, float]:
    """Return what was counted in between, in seconds, joules, bytes or events as the names say.

    `cpu.other_s` is the CPU time of everything but this process and its descendants.
    """
    counted = {name: end.counters[name] - begin.counters[name] for name in end.counters if name in begin.counters}
    if "cpu.busy_s" in counted and "cpu.own_s" in counted:
        # Both are rounded to clock ticks, so that the rest of an idle machine may come out just below zero.
        counted["cpu.other_s"] = max(0.0, counted.pop("cpu.busy_s") - counted["cpu.own_s"])
    throttled = throttled_between(begin.throttling, end.throttling)
    if throttled is not None:
        counted |= {"cgroup.throttled_periods": throttled.periods, "cgroup.throttled_s": throttled.seconds}
    if end.waits_s:
        # Threads that ended in between took their wait with them: this is a lower bound.
        counted["process.run_queue_wait_s"] = sum(
            wait - begin.waits_s.get(thread, 0.0) for thread, wait in end.waits_s.items()
        )
    if end.energy_uj and begin.energy_uj.keys() == end.energy_uj.keys():
        counted["cpu.energy_j"] = sum(
            (value - begin.energy_uj[package][0]) % wrap / 1e6 for package, (value, wrap) in end.energy_uj.items()
        )
    return counted


def read_cpu_time(cpus: Sequence[int] | None = None) -> dict[str, float]:
    """Read the seconds that these CPUs together, or all, were busy, and that a hypervisor gave to another guest."""
    if cpus is None:
        times = [psutil.cpu_times()]
    else:
        times = [its for number, its in enumerate(psutil.cpu_times(percpu=True)) if number in cpus]
    busy = sum(getattr(its, name, 0.0) for its in times for name in ("user", "nice", "system", "irq", "softirq"))
    steal = [its.steal for its in times if hasattr(its, "steal")]
    return {"cpu.busy_s": busy, **({"cpu.steal_s": sum(steal)} if steal else {})}


def read_own_time(root: Path) -> dict[str, float]:
    """Read the CPU seconds of this process, its descendants, and those of them that have ended."""
    own = psutil.Process()
    seconds = 0.0
    for process in [own, *own.children(recursive=True)]:
        try:
            seconds += sum(process.cpu_times()[:4])  # user, system, and both of its ended children
        except psutil.NoSuchProcess:
            continue  # it ended just now, and its parent has been handed its time
    return {"cpu.own_s": seconds}


def read_usage(root: Path) -> dict[str, float]:
    """Read the page faults and context switches of this process, all threads together."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "process.minor_faults": usage.ru_minflt,
        "process.major_faults": usage.ru_majflt,
        "process.voluntary_switches": usage.ru_nvcsw,
        "process.involuntary_switches": usage.ru_nivcsw,
    }


def read_swapping(root: Path) -> dict[str, float]:
    """Read how many bytes the machine moved to and from swap space."""
    pages = read_pairs(root / "proc/vmstat")
    if "pswpin" not in pages:
        return {}
    return {"memory.swapped_bytes": (int(pages["pswpin"]) + int(pages["pswpout"])) * PAGE_BYTES}


def read_heat(root: Path) -> dict[str, float]:
    """Read how often a CPU core slowed down for its heat."""
    count = collect_throttle_count(root)
    return {} if count is None else {"cpu.thermal_throttles": count}


class Schedule(NamedTuple):
    """The seconds that a thread ran, and those that it was ready to run while no CPU was free."""

    run_s: float
    wait_s: float


def read_schedules(root: Path = Path("/")) -> dict[int, Schedule]:
    """Read each thread's time on a CPU and on the run queue: the first numbers of its `schedstat`, in nanoseconds."""
    found = {}
    for path in (root / "proc/self/task").glob("*/schedstat"):
        fields = (read_text(path) or "").split()
        if len(fields) == 3:
            found[int(path.parent.name)] = Schedule(int(fields[0]) / 1e9, int(fields[1]) / 1e9)
    return found
