"""The checks of what disturbs measurements on this machine right now, each with the command that quietens it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import sleep

import psutil

from accelbench.doctor.check import Check
from accelbench.profiling.machine.cpu_probe import probed, slower_cpus, slower_in_words
from accelbench.profiling.machine.environment.collect import collect
from accelbench.profiling.machine.environment.cpu import CPUS
from accelbench.profiling.machine.environment.files import format_cpu_list, read_int, read_text
from accelbench.profiling.machine.held_back import USERS, held_back
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.telemetry.noise import OTHERS_CPUS, OTHERS_SHARE, STEAL_SHARE

LOOK_SECONDS = 0.5
"""The time over which the load of the moment is counted: fifty ticks of the kernel's clock on each CPU."""
SHOWN = 3
"""The most processes that are named, and of them only those that use more than this share of a CPU."""
BUSY_SHARE = 0.05


def check_boost(root: Path) -> Check | None:
    """Check whether the clock rises above its base while the chip is cool, so that a figure depends on the minute."""
    no_turbo = read_int(root / CPUS / "intel_pstate/no_turbo")
    boost = read_int(root / CPUS / "cpufreq/boost")
    if no_turbo is None and boost is None:
        return None
    if no_turbo == 1 or (no_turbo is None and boost == 0):
        return Check("CPU boost", "ok", "off: clocks do not depend on the temperature")
    intel = no_turbo is not None
    place, value = ("intel_pstate/no_turbo", "1") if intel else ("cpufreq/boost", "0")
    advice = f"for figures that come out again: echo {value} | sudo tee /{CPUS}/{place}"
    cost = "clocks depend on temperature and on how many cores work; without it figures are lower and steadier"
    return Check("CPU boost", "warn", "on", advice, cost)


def check_smt(root: Path) -> Check | None:
    """Check whether cores have two hardware threads, so that another process may take half of a measured core."""
    active = read_int(root / CPUS / "smt/active")
    if active is None:
        return None
    if active == 0:
        return Check("hardware threads", "ok", "one for each core")
    siblings = {read_text(path) for path in (root / CPUS).glob("cpu[0-9]*/topology/thread_siblings_list")}
    firsts = sorted({int(group.replace("-", ",").split(",")[0]) for group in siblings if group})
    keep = f"taskset -c {format_cpu_list(firsts)} accelbench run …, or " if firsts else ""
    advice = f"{keep}echo off | sudo tee /{CPUS}/smt/control"
    cost = "what runs on the other thread of a core takes up to half of it, unseen by the load"
    return Check("hardware threads", "warn", "several for each core", advice, cost)


def trials_of_quiet() -> Iterator[Check]:
    """Yield the checks that take a moment of measuring: the load, each CPU's speed, and what libraries are kept to."""
    environment = probed(collect())
    yield try_load()
    if found := check_cpu_speeds(environment):
        yield found
    yield check_held_back(environment)


def try_load() -> Check:
    """Look for half a second at what the CPUs do for others, and name the processes that are busiest."""
    processes = {process: _cpu_seconds(process) for process in psutil.process_iter()}
    before = psutil.cpu_times()
    sleep(LOOK_SECONDS)
    after = psutil.cpu_times()
    shares = {process: (_cpu_seconds(process) - seconds) / LOOK_SECONDS for process, seconds in processes.items()}
    ranked = sorted(shares.items(), key=lambda item: item[1], reverse=True)[:SHOWN]
    busiest = [f"{_name(each)} (process {each.pid}, {share:.0%})" for each, share in ranked if share > BUSY_SHARE]
    idle = sum(getattr(after, part, 0.0) - getattr(before, part, 0.0) for part in ("idle", "iowait"))
    steal = getattr(after, "steal", 0.0) - getattr(before, "steal", 0.0)
    cpus = psutil.cpu_count() or 1
    return judge_load(max(0.0, cpus - (idle + steal) / LOOK_SECONDS), steal / LOOK_SECONDS / cpus, cpus, busiest)


def judge_load(used: float, stolen: float, cpus: int, busiest: list[str]) -> Check:
    """Judge what others use, in CPUs, and what the hypervisor takes, as a share of all CPUs, by the limits of a point.

    `busiest` are the processes that use most, in words.
    """
    found = f"{used:.1f} of {cpus} CPUs in use" + (f", {stolen:.0%} taken by the hypervisor" if stolen else "")
    if stolen >= STEAL_SHARE:
        cost = "other tenants of this host share its cores: compare neighbours in time only"
        return Check("load now", "warn", found, "ask for a dedicated host, or measure when it is quieter", cost)
    if used <= min(OTHERS_SHARE * cpus, OTHERS_CPUS):
        return Check("load now", "ok", found)
    stop = f"end it, or stop it meanwhile (kill -STOP PID, later kill -CONT PID): {', '.join(busiest)}"
    return Check("load now", "warn", found, stop if busiest else "top -o %CPU tells by whom")


def _cpu_seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:  # it has ended, or is another user's
        return 0.0
    return float(times.user + times.system)


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return "ended"


def check_cpu_speeds(environment: Environment) -> Check | None:
    """Check that the usable CPUs are alike in the probe's bandwidth; None where there was nothing to compare."""
    bandwidths = environment.cpu.bandwidths
    if not bandwidths:
        return None
    found = slower_in_words(bandwidths)
    if found is None:
        return Check("CPU speeds", "ok", f"{len(bandwidths)} CPUs alike within 5 %")
    fast = [cpu for cpu in bandwidths if cpu not in slower_cpus(bandwidths)]
    advice = f"taskset -c {format_cpu_list(fast)} accelbench run …"
    cost = "points of one core are pinned to a fast CPU; those of all cores wait for the slowest"
    return Check("CPU speeds", "warn", found, advice, cost)


def check_held_back(environment: Environment) -> Check:
    """Check that no setting keeps a library below what this CPU can."""
    held = held_back(environment, USERS)
    if not held:
        return Check("library settings", "ok", "none below what this CPU has")
    variables = [sentence.partition("=")[0] for sentence in held if "=" in sentence]
    advice = f"unset {' '.join(variables)}" if variables else "unset the thread settings named above"
    return Check("library settings", "warn", "; ".join(held), advice)
