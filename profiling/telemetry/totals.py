"""Kernel counters of this machine and process, and their differences over a measurement.

Sources: proc(5), getrusage(2), Linux `Documentation/scheduler/sched-stats.rst`, cgroup-v2.rst, powercap.rst.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import psutil

from accelbench.profiling.machine.cause_counters import suspended_s
from accelbench.profiling.machine.cpu_times import read_cpu_times
from accelbench.profiling.machine.environment.cpu import collect_energy, collect_throttle_count
from accelbench.profiling.machine.environment.files import read_pairs, read_text
from accelbench.profiling.machine.environment.limits import Throttling, collect_throttling, throttled_between

PAGE_BYTES = resource.getpagesize()
LEAST_S = 0.1
"""Seconds after which every kernel that counts CPU time has counted some."""


@dataclass(frozen=True)
class Totals:
    """All counters at one time."""

    wall_s: float
    counters: Mapping[str, float]
    """Values by name in the telemetry record."""
    waits_s: Mapping[int, float]
    """Seconds in which each thread was runnable without a free CPU, by thread id."""
    energy_uj: Mapping[str, tuple[int, int]]
    """Energy counter of each CPU package and its wrap-around value, in µJ."""
    throttling: Mapping[Path, Throttling] = field(default_factory=dict)
    """Throttling by the CPU quota of each control group of the process."""


def read_totals(root: Path = Path("/")) -> Totals:
    """Return the current counters; unreadable counters are omitted."""
    counters = read_cpu_time(root=root)
    for collect in (read_own_time, read_usage, read_swapping, read_throttling_events, read_suspension):
        counters |= collect(root)
    waits = {thread: schedule.wait_s for thread, schedule in read_schedules(root).items()}
    return Totals(perf_counter(), counters, waits, collect_energy(root), collect_throttling(root))


def difference(begin: Totals, end: Totals) -> dict[str, float]:
    """Return the differences of the counters, in seconds, joules, bytes or events by name.

    `cpu.other_s` is the CPU time of all processes except this one and its descendants; it is missing if the kernel does
    not count CPU time.
    """
    counted = {name: end.counters[name] - begin.counters[name] for name in end.counters if name in begin.counters}
    if counted.pop("cpu.all_s", 0.0) <= 0 and end.wall_s - begin.wall_s > LEAST_S:
        counted.pop("cpu.busy_s", None)  # counters that do not move are unknown, not zero
        counted.pop("cpu.steal_s", None)
    if "cpu.busy_s" in counted and "cpu.own_s" in counted:
        # Both are rounded to clock ticks, so the difference on an idle machine may be negative.
        counted["cpu.other_s"] = max(0.0, counted.pop("cpu.busy_s") - counted["cpu.own_s"])
    throttled = throttled_between(begin.throttling, end.throttling)
    if throttled is not None:
        counted |= {"cgroup.throttled_periods": throttled.periods, "cgroup.throttled_s": throttled.seconds}
    if end.waits_s:
        # A lower bound: the wait of threads that ended in between is missing.
        counted["process.run_queue_wait_s"] = sum(
            wait - begin.waits_s.get(thread, 0.0) for thread, wait in end.waits_s.items()
        )
    if end.energy_uj and begin.energy_uj.keys() == end.energy_uj.keys():
        joules = sum(
            (value - begin.energy_uj[package][0]) % wrap / 1e6 for package, (value, wrap) in end.energy_uj.items()
        )
        if joules > 0 or end.wall_s - begin.wall_s <= LEAST_S:
            counted["cpu.energy_j"] = joules
    return counted


def read_cpu_time(cpus: Sequence[int] | None = None, root: Path = Path("/")) -> dict[str, float]:
    """Return the busy, stolen and entire seconds of these CPUs (None: all), summed over the CPUs.

    Empty if the kernel does not count the time of one of them.
    """
    times = read_cpu_times(root)
    numbers = [None] if cpus is None else list(cpus)
    if not times or not times.keys() >= set(numbers):
        return {}
    chosen = [times[number] for number in numbers]
    steal = [each.steal_s for each in chosen if each.steal_s is not None]
    return {
        "cpu.busy_s": sum(each.busy_s for each in chosen),
        "cpu.all_s": sum(each.all_s for each in chosen),
        **({"cpu.steal_s": sum(steal)} if steal else {}),
    }


def read_own_time(root: Path) -> dict[str, float]:
    """Return the CPU seconds of this process and of its descendants, including ended ones."""
    own = psutil.Process()
    seconds = 0.0
    for process in [own, *own.children(recursive=True)]:
        try:
            seconds += sum(process.cpu_times()[:4])  # user and system, own and of ended children
        except psutil.NoSuchProcess:
            continue  # it has ended, and its parent's counters include it
    return {"cpu.own_s": seconds}


def read_usage(root: Path) -> dict[str, float]:
    """Return the page faults and context switches of this process; empty for what a sandbox does not count."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    faults = {"process.minor_faults": usage.ru_minflt, "process.major_faults": usage.ru_majflt}
    switches = {"process.voluntary_switches": usage.ru_nvcsw, "process.involuntary_switches": usage.ru_nivcsw}
    # A process that has imported NumPy has faults and switches.
    return {name: count for counts in (faults, switches) if any(counts.values()) for name, count in counts.items()}


def read_swapping(root: Path) -> dict[str, float]:
    """Return the bytes that the machine moved to and from swap space."""
    pages = read_pairs(root / "proc/vmstat")
    if "pswpin" not in pages:
        return {}
    return {"memory.swapped_bytes": (int(pages["pswpin"]) + int(pages["pswpout"])) * PAGE_BYTES}


def read_throttling_events(root: Path) -> dict[str, float]:
    """Return the number of thermal throttling events of the CPU cores."""
    count = collect_throttle_count(root)
    return {} if count is None else {"cpu.thermal_throttles": count}


def read_suspension(root: Path) -> dict[str, float]:
    """Return the seconds of suspension since the boot, which CLOCK_MONOTONIC does not count."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return {}
    return {"machine.suspended_s": suspended_s()}


class Schedule(NamedTuple):
    """Seconds in which a thread ran, and in which it was runnable without a free CPU."""

    run_s: float
    wait_s: float


def read_schedules(root: Path = Path("/")) -> dict[int, Schedule]:
    """Return the running and waiting time of each thread, from `schedstat`; empty if the kernel counts none."""
    found = {}
    for path in (root / "proc/self/task").glob("*/schedstat"):
        fields = (read_text(path) or "").split()
        if len(fields) == 3:
            found[int(path.parent.name)] = Schedule(int(fields[0]) / 1e9, int(fields[1]) / 1e9)
    return found if any(schedule.run_s > 0 for schedule in found.values()) else {}
