"""Host part of a profile in the report: shares of the time, threads, and counters of the operating system."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from accelbench.environment.fields import LabelledValue
from accelbench.output.format import UNKNOWN, clip, counted, digits, percent, seconds
from accelbench.profiling.records.host import CATEGORIES, Category, HostCounters, HostProfile, Sampling, ThreadShare
from accelbench.profiling.text import format_bytes

THREADS, HOLDERS = 12, 4
FEW_CORES = 8
"""Maximum number of cores that are listed individually."""
LEAST_SHARE = 0.005
"""Minimum share of a thread's time for a category to be listed."""
MAX_NAME = 60

CATEGORY_NAMES: Mapping[Category, str] = {
    "dispatch": "dispatch: Python code that calls the framework",
    "input": "input: producing data, or waiting for it",
    "runtime": "runtime: the framework's own code",
    "kernels": "kernels: BLAS and other array operations",
    "waiting": "waiting: for the device, or idle",
    "other": "other: not classified",
}


@dataclass(frozen=True)
class ShareLine:
    """Category of work with its shares of the step thread's wall time and of all threads' CPU time."""

    name: str
    wall: float | None
    cpu: float | None


@dataclass(frozen=True)
class ThreadLine:
    name: str
    cpu: str
    wait: str
    spent_on: str


@dataclass(frozen=True)
class HostPart:
    """Host profile as texts for the page."""

    shares: tuple[ShareLine, ...]
    """Shares by category; empty if unknown (the profile's `missing` has the reason)."""
    facts: tuple[LabelledValue, ...]
    threads: tuple[ThreadLine, ...]
    more_threads: int
    counters: tuple[LabelledValue, ...]
    cores: tuple[tuple[int, float], ...]
    """Utilisation of each core in percent."""


def host_part(host: HostProfile) -> HostPart:
    """Return the host profile as texts."""
    threads = sorted(host.threads, key=lambda thread: thread.cpu_s, reverse=True)
    wall, cpu = host.step_thread, host.cpu
    lines = [
        ShareLine(
            CATEGORY_NAMES[name],
            None if wall is None else wall.get(name, 0.0),
            None if cpu is None else cpu.get(name, 0.0),
        )
        for name in CATEGORIES
    ]
    return HostPart(
        shares=tuple(line for line in lines if line.wall or line.cpu),
        facts=tuple(_facts(host)),
        threads=tuple(map(_thread, threads[:THREADS])),
        more_threads=max(0, len(threads) - THREADS),
        counters=tuple(_counters(host.counters)),
        cores=tuple((core, 100 * busy) for core, busy in sorted((host.counters.core_utilisation or {}).items())),
    )


def named(text: str) -> str:
    """Return a recorded name for a table: on one line, clipped, without control characters."""
    return clip(text, MAX_NAME)


def _facts(host: HostProfile) -> Iterable[LabelledValue]:
    yield LabelledValue("interpreter lock (GIL)", _gil(host), "too few samples of py-spy")
    makers = None if host.data_makers is None else f"{digits(host.data_makers, 2)} on average"
    yield LabelledValue("other threads producing data", makers, "too few samples of py-spy")
    yield LabelledValue("overhead of py-spy", _cost(host.sampling), "py-spy took no samples")
    slower = None if host.overhead is None else f"longer by {host.overhead.sentence()}"
    yield LabelledValue("steps during sampling", slower, "no sampling window had steps before and after it")


def _gil(host: HostProfile) -> str | None:
    if host.gil_held is None:
        return None
    largest = sorted(host.gil_holders.items(), key=lambda pair: pair[1], reverse=True)[:HOLDERS]
    holders = ", ".join(f"{named(name)} {percent(share)}" for name, share in largest)
    return f"held {percent(host.gil_held)} of the time" + f": {holders}" * bool(holders)


def _cost(sampling: Sampling) -> str | None:
    if not sampling.windows:
        return None
    looks = sum(window.looks for window in sampling.windows)
    windows = counted(len(sampling.windows), "window")
    return (
        f"about {percent(sampling.cost)} of the time (limit {percent(sampling.budget)}); "
        f"{looks:,} samples in {windows}, over {seconds(sampling.elapsed_s)}"
    )


def _thread(thread: ThreadShare) -> ThreadLine:
    largest = sorted(thread.shares.items(), key=lambda pair: pair[1], reverse=True)
    spent = [f"{name} {percent(share)}" for name, share in largest if share >= LEAST_SHARE]
    return ThreadLine(
        name=named(thread.name) + (f" ×{thread.threads}" if thread.threads > 1 else ""),
        cpu=seconds(thread.cpu_s),
        wait=UNKNOWN if thread.wait_s is None else seconds(thread.wait_s),
        spent_on=", ".join(spent) or UNKNOWN,
    )


def _counters(counters: HostCounters) -> Iterable[LabelledValue]:
    def fact(label: str, field: str, text: str | None) -> LabelledValue:
        return LabelledValue(label, text, counters.unknown.get(field, "not read") if text is None else None)

    elapsed = counters.elapsed_s
    yield fact("busy cores", "core_utilisation", _cores(counters.core_utilisation))
    cpu, wait = counters.cpu_s, counters.run_queue_wait_s
    used = f", {digits(cpu / elapsed, 2)} cores on average" if cpu is not None and elapsed > 0 else ""
    yield fact(
        "CPU time of the process", "cpu_s", None if cpu is None else f"{seconds(cpu)} in {seconds(elapsed)}{used}"
    )
    share = f", {percent(wait / (wait + cpu))} of the runnable time" if wait and cpu else ""
    yield fact("waiting for a CPU", "run_queue_wait_s", None if wait is None else seconds(wait) + share)
    yield fact("context switches, voluntary", "voluntary_switches", _rate(counters.voluntary_switches, elapsed))
    yield fact("context switches, involuntary", "involuntary_switches", _rate(counters.involuntary_switches, elapsed))
    steal = counters.steal_s
    yield fact("steal time (hypervisor)", "steal_s", None if steal is None else seconds(steal))
    throttled, periods = counters.throttled_s, counters.throttled_periods
    known = throttled is not None and periods is not None
    text = f"{seconds(throttled or 0.0)} in {periods:,} periods" if known and periods else "never" if known else None
    yield fact("throttled by the CPU quota", "throttled_periods", text)
    yield fact("page faults, minor", "minor_faults", _rate(counters.minor_faults, elapsed))
    yield fact("page faults, major", "major_faults", _rate(counters.major_faults, elapsed))
    yield fact("peak resident set size", "rss_peak_bytes", _size(counters.rss_peak_bytes))
    yield fact("disk, read", "disk_read_bytes", _size(counters.disk_read_bytes))
    yield fact("disk, written", "disk_written_bytes", _size(counters.disk_written_bytes))
    yield fact("network, received", "network_received_bytes", _size(counters.network_received_bytes))
    yield fact("network, sent", "network_sent_bytes", _size(counters.network_sent_bytes))


def _cores(busy: Mapping[int, float] | None) -> str | None:
    if not busy:
        return None
    if len(busy) <= FEW_CORES:
        return ", ".join(f"core {core} {percent(share)}" for core, share in sorted(busy.items()))
    low, middle, high = min(busy.values()), median(busy.values()), max(busy.values())
    return f"{len(busy)} cores: median {percent(middle)}, from {percent(low)} to {percent(high)}"


def _rate(count: int | None, elapsed: float) -> str | None:
    if count is None:
        return None
    return f"{count:,}" + (f", {digits(count / elapsed, 2)} a second" if count and elapsed > 0 else "")


def _size(count: int | None) -> str | None:
    return None if count is None else format_bytes(count)
