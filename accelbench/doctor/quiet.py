"""Checks of current sources of noise on this machine, each with the command that reduces it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import sleep

import psutil

from accelbench.doctor.check import Check
from accelbench.profiling.machine.cpu_probe import format_slower_cpus, slower_cpus, with_bandwidths
from accelbench.profiling.machine.environment.collect import collect
from accelbench.profiling.machine.environment.files import CPUS, format_cpu_list, read_int, read_text
from accelbench.profiling.machine.limiting_settings import USERS, limiting_settings
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.telemetry.noise import STEAL_SHARE, exceeds_tolerance

LOOK_SECONDS = 0.5
"""Duration of the load measurement in seconds: 50 kernel ticks on each CPU."""
SHOWN = 3
"""Maximum number of processes to name."""
BUSY_SHARE = 0.05
"""Minimum share of a CPU for a process to be named."""


def check_boost(root: Path) -> Check | None:
    """Check whether CPU boost is on, which makes clocks depend on temperature and load."""
    no_turbo = read_int(root / CPUS / "intel_pstate/no_turbo")
    boost = read_int(root / CPUS / "cpufreq/boost")
    if no_turbo is None and boost is None:
        return None
    if no_turbo == 1 or (no_turbo is None and boost == 0):
        return Check("CPU boost", "ok", "off: clocks do not depend on the temperature")
    intel = no_turbo is not None
    place, value = ("intel_pstate/no_turbo", "1") if intel else ("cpufreq/boost", "0")
    advice = f"for reproducible results: echo {value} | sudo tee /{CPUS}/{place}"
    cost = "clocks depend on temperature and active cores; without boost, results are lower and more stable"
    return Check("CPU boost", "warn", "on", advice, cost)


def check_smt(root: Path) -> Check | None:
    """Check whether SMT is on, so that another process can use half of a measured core."""
    active = read_int(root / CPUS / "smt/active")
    if active is None:
        return None
    if active == 0:
        return Check("hardware threads", "ok", "one per core")
    siblings = {read_text(path) for path in (root / CPUS).glob("cpu[0-9]*/topology/thread_siblings_list")}
    firsts = sorted({int(group.replace("-", ",").split(",")[0]) for group in siblings if group})
    keep = f"taskset -c {format_cpu_list(firsts)} accelbench run …, or " if firsts else ""
    advice = f"{keep}echo off | sudo tee /{CPUS}/smt/control"
    cost = "a process on the other thread of a core takes up to half of it, which the load does not show"
    return Check("hardware threads", "warn", "several per core", advice, cost)


def noise_trials() -> Iterator[Check]:
    """Yield the checks with a short measurement: load, speed of each CPU, and limits by library settings."""
    environment = with_bandwidths(collect())
    yield load_check(observe_load())
    if found := check_cpu_speeds(environment):
        yield found
    yield check_library_settings(environment)


@dataclass(frozen=True)
class ObservedLoad:
    """CPU load of other processes over a short time."""

    used: float | None
    """CPUs in use by other processes; None if the kernel counts no CPU time, as in some sandboxes."""
    stolen: float
    """Steal time as a share of all CPUs."""
    cpus: int
    busiest: tuple[str, ...]
    """Busiest processes as text."""

    @property
    def has_steal(self) -> bool:
        """Return whether the steal time makes a point noisy."""
        return self.stolen >= STEAL_SHARE

    @property
    def is_busy(self) -> bool:
        """Return whether the load exceeds the thresholds of noise flags."""
        return self.has_steal or (self.used is not None and exceeds_tolerance(self.used, self.cpus))

    @property
    def found(self) -> str:
        """Return the load as text."""
        if self.used is None:
            return "unknown: the kernel counts no CPU time"
        steal = f", {self.stolen:.0%} steal time" if self.stolen else ""
        return f"{self.used:.1f} of {self.cpus} CPUs in use{steal}"


def observe_load() -> ObservedLoad:
    """Measure the CPU load of other processes for half a second, with the busiest ones."""
    processes = {process: _cpu_seconds(process) for process in psutil.process_iter()}
    before = psutil.cpu_times()
    sleep(LOOK_SECONDS)
    after = psutil.cpu_times()
    shares = {process: (_cpu_seconds(process) - seconds) / LOOK_SECONDS for process, seconds in processes.items()}
    ranked = sorted(shares.items(), key=lambda item: item[1], reverse=True)[:SHOWN]
    busiest = [f"{_name(each)} (PID {each.pid}, {share:.0%})" for each, share in ranked if share > BUSY_SHARE]
    idle = sum(getattr(after, part, 0.0) - getattr(before, part, 0.0) for part in ("idle", "iowait"))
    steal = getattr(after, "steal", 0.0) - getattr(before, "steal", 0.0)
    cpus = psutil.cpu_count() or 1
    has_moved = any(now > then for now, then in zip(after, before, strict=True))
    used = max(0.0, cpus - (idle + steal) / LOOK_SECONDS) if has_moved else None
    return ObservedLoad(used, steal / LOOK_SECONDS / cpus, cpus, tuple(busiest))


def load_check(load: ObservedLoad) -> Check:
    """Return the check of the load of other processes and of steal time."""
    if load.has_steal:
        cost = "other virtual machines share the cores: compare only measurements close in time (accelbench pair)"
        return Check("load now", "warn", load.found, "use a dedicated host, or measure at a quieter time", cost)
    if load.used is None:
        return Check("load now", "warn", load.found, "results cannot be checked for other processes: repeat them")
    if not load.is_busy:
        return Check("load now", "ok", load.found)
    stop = f"end or pause (kill -STOP PID, later kill -CONT PID): {', '.join(load.busiest)}"
    return Check("load now", "warn", load.found, stop if load.busiest else "find the processes: top -o %CPU")


def _cpu_seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:  # it has ended, or belongs to another user
        return 0.0
    return float(times.user + times.system)


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return "ended"


def check_cpu_speeds(environment: Environment) -> Check | None:
    """Check that all usable CPUs have equal bandwidth in the probe; None without measured bandwidths."""
    bandwidths, kinds = environment.cpu.bandwidths, environment.cpu.kinds
    if not bandwidths:
        return None
    found = format_slower_cpus(bandwidths, kinds)
    if found is None:
        return Check("CPU speeds", "ok", f"{len(bandwidths)} CPUs, equal within 5 %")
    fast = [cpu for cpu in bandwidths if cpu not in slower_cpus(bandwidths, kinds)]
    advice = f"taskset -c {format_cpu_list(fast)} accelbench run …"
    cost = "serial points are pinned to a fast CPU, but points on all cores wait for the slowest"
    return Check("CPU speeds", "warn", found, advice, cost)


def check_library_settings(environment: Environment) -> Check:
    """Check that no setting limits a library below the capabilities of this CPU."""
    held = limiting_settings(environment, USERS)
    if not held:
        return Check("library settings", "ok", "no limits below this CPU's capabilities")
    variables = [text.partition("=")[0] for text in held if "=" in text]
    advice = f"unset {' '.join(variables)}" if variables else "unset the thread settings named above"
    return Check("library settings", "warn", "; ".join(held), advice)
