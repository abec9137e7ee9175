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

import psutil

from accelbench.profiling.host.threads import ThreadTotals, read_threads, thread_difference
from accelbench.profiling.machine.environment.files import read_pairs, read_text
from accelbench.profiling.machine.environment.limits import Throttling, collect_throttling, throttled_between
from accelbench.profiling.records.host import HostCounters
from accelbench.profiling.telemetry.sensors import busy_percent

POLL_S = 1.0
"""The seconds between two readings: what a thread used since it was last read is lost when it ends."""
MINOR_FAULTS, MAJOR_FAULTS = 7, 9
"""The places of these fields of `stat` after the command's closing parenthesis, from 0."""


UNREADABLE: dict[tuple[str, ...], str] = {
    ("core_utilisation",): "a CPU was switched off or on, or too little time passed",
    ("cpu_s", "minor_faults", "major_faults"): "/proc/<pid>/stat was not readable at both ends",
    ("run_queue_wait_s",): "the kernel keeps no /proc/<pid>/task/*/schedstat (CONFIG_SCHED_INFO)",
    ("voluntary_switches", "involuntary_switches"): "/proc/<pid>/task/*/status was not readable",
    ("steal_s",): "the kernel counts no steal time",
    ("throttled_periods", "throttled_s"): "no control group of this process counts throttling: it has no CPU quota",
    ("rss_peak_bytes",): "/proc/<pid>/status names no VmHWM",
    ("disk_read_bytes", "disk_written_bytes"): "/proc/<pid>/io belongs to another user, or is not kept",
    ("network_received_bytes", "network_sent_bytes"): "/proc/<pid>/net/dev was not readable",
}
REASONS = {name: reason for names, reason in UNREADABLE.items() for name in names}


@dataclass(frozen=True)
class CounterSnapshot:
    """Every total at one moment; those of an ended process are not there."""

    when_s: float
    threads: Mapping[int, ThreadTotals]
    process: Mapping[str, int]
    """The totals of the process, by the fields of `HostCounters`."""
    cores: tuple[Any, ...]
    steal_s: float | None
    throttling: Mapping[Path, Throttling]


class HostCounterSampler:
    """Counts from `__enter__` to `__exit__`, or to the last second of the process; `result()` afterwards."""

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
        """Return what each thread used, those included that ended since."""
        return thread_difference(self._begin.threads, self._threads)

    @property
    def elapsed_s(self) -> float:
        return self._last.when_s - self._begin.when_s

    def _poll(self) -> None:
        while not self._stop.wait(self._poll_s):
            self._read()

    def _read(self) -> None:
        reading = take_reading(self._pid, self._root)
        if reading.process:  # it lives
            self._last = reading
            self._threads.update(reading.threads)


def take_reading(pid: int, root: Path = Path("/")) -> CounterSnapshot:
    cores = psutil.cpu_times(percpu=True)
    steals = [core.steal for core in cores if hasattr(core, "steal")]
    return CounterSnapshot(
        when_s=perf_counter(),
        threads=read_threads(pid, root),
        process=read_process(pid, root),
        cores=tuple(cores),
        steal_s=sum(steals) if steals else None,
        throttling=collect_throttling(root),
    )


def read_process(pid: int, root: Path = Path("/")) -> dict[str, int]:
    """Return the process's totals; none once it has ended."""
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
    """Return bytes received and sent by all interfaces but the loopback, of `NAME: RECEIVED … (8 columns) SENT …`."""
    lines = read_pairs(path, ":")
    columns = [value.split() for name, value in lines.items() if name != "lo" and "|" not in name]
    columns = [values for values in columns if len(values) >= 16]
    if not lines:
        return None, None
    return sum(int(values[0]) for values in columns), sum(int(values[8]) for values in columns)


def count_between(begin: CounterSnapshot, end: CounterSnapshot, threads: Mapping[int, ThreadTotals]) -> HostCounters:
    """Return the difference of two readings, with the threads' own."""
    found: dict[str, Any] = {
        name: value if name == "rss_peak_bytes" else value - begin.process[name]
        for name, value in end.process.items()
        if name in begin.process
    }
    if len(begin.cores) == len(end.cores) and end.cores != begin.cores:
        pairs = zip(begin.cores, end.cores, strict=True)
        found["core_utilisation"] = {number: busy_percent(*pair) / 100 for number, pair in enumerate(pairs)}
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
