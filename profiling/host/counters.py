"""System counters of a process: cores, run queue, context switches, quota, page faults, memory, disk, network.

Sources: proc_pid_stat(5), proc_pid_status(5), proc_pid_io(5), proc_pid_net(5), cgroup-v2.rst.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any

from accelbench.profiling.host.threads import ThreadTotals, read_threads, thread_difference
from accelbench.profiling.machine.cpu_times import CpuTimes, load_between, read_cpu_times
from accelbench.profiling.machine.environment.files import read_pairs, read_text
from accelbench.profiling.machine.environment.limits import Throttling, collect_throttling, throttled_between
from accelbench.profiling.records.host import HostCounters

POLL_S = 1.0
"""Seconds between two readings; the use of an ended thread after its last reading is lost."""
MINOR_FAULTS, MAJOR_FAULTS = 7, 9
"""0-based indices of these fields of `stat` after the command's closing parenthesis."""


UNREADABLE: dict[tuple[str, ...], str] = {
    ("core_utilisation",): "/proc/stat counts no CPU time, or the interval is too short",
    ("cpu_s", "minor_faults", "major_faults"): "/proc/<pid>/stat was not readable at both ends",
    ("run_queue_wait_s",): "the kernel has no /proc/<pid>/task/*/schedstat (CONFIG_SCHED_INFO)",
    ("voluntary_switches", "involuntary_switches"): "/proc/<pid>/task/*/status was not readable",
    ("steal_s",): "the kernel does not count steal time",
    ("throttled_periods", "throttled_s"): "no control group of this process counts throttling: no CPU quota is set",
    ("rss_peak_bytes",): "/proc/<pid>/status has no VmHWM",
    ("disk_read_bytes", "disk_written_bytes"): "/proc/<pid>/io belongs to another user or does not exist",
    ("network_received_bytes", "network_sent_bytes"): "/proc/<pid>/net/dev was not readable",
}
REASONS = {name: reason for names, reason in UNREADABLE.items() for name in names}


@dataclass(frozen=True)
class CounterSnapshot:
    """Cumulative counters of a process and its host at one time; an ended process has none of its own."""

    when_s: float
    threads: Mapping[int, ThreadTotals]
    process: Mapping[str, int]
    """Counters of the process, keyed by the fields of `HostCounters`."""
    cores: Mapping[int, CpuTimes]
    steal_s: float | None
    throttling: Mapping[Path, Throttling]


class HostCounterSampler:
    """Counters of a process from `__enter__` to `__exit__` or to the last reading; call `result()` afterwards."""

    def __init__(self, pid: int, poll_s: float = POLL_S, root: Path = Path("/")) -> None:
        self._pid, self._poll_s, self._root = pid, poll_s, root
        self._threads: dict[int, ThreadTotals] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="host counters", daemon=True)

    def __enter__(self) -> HostCounterSampler:
        self._begin = self._last = take_reading(self._pid, self._root)
        self._threads.update(self._begin.threads)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._read()

    def result(self) -> HostCounters:
        return count_between(self._begin, self._last, self.threads())

    def threads(self) -> dict[int, ThreadTotals]:
        """Return the use of each thread, including threads that have ended."""
        return thread_difference(self._begin.threads, self._threads)

    @property
    def elapsed_s(self) -> float:
        return self._last.when_s - self._begin.when_s

    def _poll(self) -> None:
        while not self._stop.wait(self._poll_s):
            self._read()

    def _read(self) -> None:
        reading = take_reading(self._pid, self._root)
        if reading.process:  # empty after the process has ended
            self._last = reading
            self._threads.update(reading.threads)


def take_reading(pid: int, root: Path = Path("/")) -> CounterSnapshot:
    cores = read_cpu_times(root)
    return CounterSnapshot(
        when_s=perf_counter(),
        threads=read_threads(pid, root),
        process=read_process(pid, root),
        cores={number: times for number, times in cores.items() if number is not None},
        steal_s=cores[None].steal_s if cores else None,
        throttling=collect_throttling(root),
    )


def read_process(pid: int, root: Path = Path("/")) -> dict[str, int]:
    """Return the counters of the process; empty if it has ended."""
    folder = root / "proc" / str(pid)
    stat = (read_text(folder / "stat") or "").rpartition(")")[2].split()
    status = read_pairs(folder / "status", ":")
    if not stat or stat[0] == "Z":
        return {}
    io, (received, sent) = read_pairs(folder / "io", ":"), read_network(folder / "net/dev")
    found = {
        "minor_faults": int(stat[MINOR_FAULTS]),
        "major_faults": int(stat[MAJOR_FAULTS]),
        "rss_peak_bytes": int(status["VmHWM"].split()[0]) * 1024 if "VmHWM" in status else None,
        "disk_read_bytes": int(io["read_bytes"]) if "read_bytes" in io else None,
        "disk_written_bytes": int(io["write_bytes"]) if "write_bytes" in io else None,
        "network_received_bytes": received,
        "network_sent_bytes": sent,
    }
    return {name: value for name, value in found.items() if value is not None}


def read_network(path: Path) -> tuple[int | None, int | None]:
    """Return the bytes received and sent by all interfaces except the loopback.

    The file has lines `NAME: RECEIVED … (8 columns) SENT …`.
    """
    lines = read_pairs(path, ":")
    columns = [value.split() for name, value in lines.items() if name != "lo" and "|" not in name]
    columns = [values for values in columns if len(values) >= 16]
    if not lines:
        return None, None
    return sum(int(values[0]) for values in columns), sum(int(values[8]) for values in columns)


def count_between(begin: CounterSnapshot, end: CounterSnapshot, threads: Mapping[int, ThreadTotals]) -> HostCounters:
    """Return the difference between two snapshots, with the given use of the threads."""
    found: dict[str, Any] = {
        name: value if name == "rss_peak_bytes" else value - begin.process[name]
        for name, value in end.process.items()
        if name in begin.process
    }
    loads = {number: load_between(begin.cores[number], end.cores[number]) for number in begin.cores.keys() & end.cores}
    known = {number: load for number, load in sorted(loads.items()) if load is not None}
    if known:
        found["core_utilisation"] = known
    if begin.steal_s is not None and end.steal_s is not None:
        found["steal_s"] = end.steal_s - begin.steal_s
    if throttled := throttled_between(begin.throttling, end.throttling):
        found |= {"throttled_periods": throttled.periods, "throttled_s": throttled.seconds}
    if threads:
        found["cpu_s"] = sum(thread.cpu_s for thread in threads.values())
        found["run_queue_wait_s"] = _sum([thread.wait_s for thread in threads.values()])
        found["voluntary_switches"] = _sum([thread.voluntary_switches for thread in threads.values()])
        found["involuntary_switches"] = _sum([thread.involuntary_switches for thread in threads.values()])
    unknown = {name: reason for name, reason in REASONS.items() if found.get(name) is None}
    return HostCounters(elapsed_s=end.when_s - begin.when_s, **found, unknown=unknown)


def _sum(values: list[Any]) -> Any:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
