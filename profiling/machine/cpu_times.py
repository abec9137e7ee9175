"""CPU time of the logical CPUs since boot, by their numbers (`/proc/stat`, proc_stat(5)).

The lines of `/proc/stat` name only the online CPUs, so that the position of a line is not the number of its CPU.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import psutil

from accelbench.profiling.machine.environment.files import read_text

LINE = re.compile(r"cpu(\d*) +(.*)")
FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""Leading fields of a line; `user` and `nice` include the guests of the following two fields."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class CpuTimes(NamedTuple):
    """Seconds of one CPU, or of all, since boot."""

    busy_s: float
    idle_s: float
    """Idle time, including the time in which a task of this CPU waited for a disk."""
    steal_s: float | None
    """Time in which the hypervisor ran another guest; None if the kernel does not count it."""

    @property
    def all_s(self) -> float:
        return self.busy_s + self.idle_s + (self.steal_s or 0.0)


def read_cpu_times(root: Path = Path("/")) -> dict[int | None, CpuTimes]:
    """Return the times of each online CPU by its number, and of all CPUs under None.

    Empty if the kernel counts nothing: some sandboxes (gVisor) show lines of zeros.
    """
    text = read_text(root / "proc/stat")
    lines = _parse(text) if text is not None else _of_psutil()
    found = {number: _times(fields) for number, fields in lines.items()}
    return found if any(times.all_s > 0 for times in found.values()) else {}


def load_between(before: CpuTimes, after: CpuTimes) -> float | None:
    """Return the share of non-idle time between two readings, 0 to 1; None if the counters did not move."""
    passed = after.all_s - before.all_s
    return min(1.0, max(0.0, 1 - (after.idle_s - before.idle_s) / passed)) if passed > 0 else None


def _parse(text: str) -> dict[int | None, Mapping[str, float]]:
    found: dict[int | None, Mapping[str, float]] = {}
    for number, values in LINE.findall(text):
        ticks = [int(value) for value in values.split()]
        found[int(number) if number else None] = {
            name: count / TICKS_PER_S for name, count in zip(FIELDS, ticks, strict=False)
        }
    return found


def _of_psutil() -> dict[int | None, Mapping[str, float]]:
    """Return the times on systems without `/proc/stat`; CPUs are numbered in order."""
    found: dict[int | None, Mapping[str, float]] = {None: psutil.cpu_times()._asdict()}
    return found | {number: times._asdict() for number, times in enumerate(psutil.cpu_times(percpu=True))}


def _times(fields: Mapping[str, float]) -> CpuTimes:
    busy = sum(fields.get(name, 0.0) for name in ("user", "nice", "system", "irq", "softirq"))
    return CpuTimes(busy, fields.get("idle", 0.0) + fields.get("iowait", 0.0), fields.get("steal"))
