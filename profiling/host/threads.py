"""Threads of a process, as accounted by the kernel.

Sources: proc_pid_task(5), proc_pid_stat(5), Linux `Documentation/scheduler/sched-stats.rst`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from accelbench.profiling.machine.environment.files import read_pairs, read_text

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
UTIME, STIME = 11, 12
"""0-based indices of these fields of `stat` after the command's closing parenthesis."""


@dataclass(frozen=True)
class ThreadTotals:
    """Cumulative counters of a thread since its start."""

    name: str
    """The thread's name, at most 15 characters; the process name if the thread has none."""
    cpu_s: float
    """CPU time in seconds."""
    wait_s: float | None
    """Seconds in which the thread was runnable without a free CPU; None if the kernel has no schedstat."""
    voluntary_switches: int | None
    involuntary_switches: int | None


def read_threads(pid: int, root: Path = Path("/")) -> dict[int, ThreadTotals]:
    """Return the counters of all current threads by id; empty if the process has ended."""
    folders = (root / "proc" / str(pid) / "task").glob("[0-9]*")
    read = ((int(folder.name), read_thread(folder)) for folder in folders)
    return {thread: totals for thread, totals in read if totals is not None}


def read_thread(folder: Path) -> ThreadTotals | None:
    """Return the counters of the thread with this folder in /proc; None if it has ended."""
    stat = read_text(folder / "stat")
    if not stat:
        return None
    name = stat[stat.index("(") + 1 : stat.rindex(")")]
    fields = stat[stat.rindex(")") + 1 :].split()
    cpu_s = (int(fields[UTIME]) + int(fields[STIME])) * TICK_S
    schedule = (read_text(folder / "schedstat") or "").split()
    status = read_pairs(folder / "status", ":")
    voluntary, involuntary = status.get("voluntary_ctxt_switches"), status.get("nonvoluntary_ctxt_switches")
    return ThreadTotals(
        name=name,
        cpu_s=int(schedule[0]) * 1e-9 if len(schedule) == 3 else cpu_s,  # nanoseconds instead of ticks
        wait_s=int(schedule[1]) * 1e-9 if len(schedule) == 3 else None,
        voluntary_switches=None if voluntary is None else int(voluntary),
        involuntary_switches=None if involuntary is None else int(involuntary),
    )


def thread_difference(begin: Mapping[int, ThreadTotals], end: Mapping[int, ThreadTotals]) -> dict[int, ThreadTotals]:
    """Return the difference of each thread in `end`; a thread that started in between counts from zero."""
    return {thread: _less(totals, begin.get(thread)) for thread, totals in end.items()}


def _less(after: ThreadTotals, before: ThreadTotals | None) -> ThreadTotals:
    if before is None:
        return after
    return ThreadTotals(
        name=after.name,
        cpu_s=max(0.0, after.cpu_s - before.cpu_s),
        wait_s=None if after.wait_s is None or before.wait_s is None else max(0.0, after.wait_s - before.wait_s),
        voluntary_switches=_minus(after.voluntary_switches, before.voluntary_switches),
        involuntary_switches=_minus(after.involuntary_switches, before.involuntary_switches),
    )


def _minus(after: int | None, before: int | None) -> int | None:
    return None if after is None or before is None else after - before
