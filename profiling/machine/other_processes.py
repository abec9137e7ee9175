"""Counters of the CPU time that others use while this process trains: /proc/stat less the time of this process.

Sources: proc(5), clock_getcpuclockid(3), Linux `Documentation/filesystems/proc.rst`.
"""

from __future__ import annotations

import os
import resource
import threading
import time
from pathlib import Path

import psutil

from accelbench.profiling.machine.cause_counters import ThreadWaits, suspended_s
from accelbench.profiling.machine.environment.limits import collect_cpu_quota, collect_throttling, throttled_between
from accelbench.profiling.timing.blocks import BlockCounters, BlockLog
from accelbench.profiling.timing.causes import TICK_S, BlockSource

USER, IDLE, IO_WAIT, STEAL = 0, 3, 4, 7
"""Columns of a CPU in /proc/stat, after its name."""
NEXT_CPU = 160
"""Largest length of a CPU's line."""


class NoCounters(Exception):
    """Raised where the system does not count what others use."""


class OtherProcesses:
    """CPU time of all processes and of this one, with its descendants; with `launching`, the waiting of this thread.

    Raises NoCounters where the system does not count it.
    """

    def __init__(self, launching: bool = False, root: Path = Path("/")) -> None:
        self.source: BlockSource = "launches" if launching else "others"
        self._root, self._waits = root, None
        try:
            self._stat = os.open(root / "proc/stat", os.O_RDONLY)
        except OSError as error:
            raise NoCounters(str(error)) from error
        try:
            self._choose_lines()
            self._waits = ThreadWaits(root, threading.get_native_id()) if launching else None
            if self._waits and not self._waits.read()[1]:
                raise NoCounters("the scheduler counts no waiting")
        except (OSError, NoCounters) as error:
            self.close()
            raise NoCounters(str(error)) from error
        self._descendants: set[int] = set()
        self._throttling = collect_throttling(root) if collect_cpu_quota(root) is not None else {}
        self.find()

    def _choose_lines(self) -> None:
        """Choose the total of all CPUs, which is rounded once, or the lines of the CPUs of this process."""
        lines = dict(self._lines(NEXT_CPU * (os.sysconf("SC_NPROCESSORS_CONF") + max(os.sched_getaffinity(0)) + 2)))
        there = list(lines)
        allowed = {f"cpu{number}".encode() for number in os.sched_getaffinity(0)}
        every = [name for name in there if name != b"cpu"]
        own = [name for name in every if name in allowed]
        if not own or not lines.get(b"cpu", [0])[USER] or not any(any(lines[name]) for name in own):
            raise NoCounters("/proc/stat has no CPU time")
        self.cpus, self._names = len(own), {b"cpu"} if own == every else set(own)
        self.lines = len(self._names)
        self._bytes = NEXT_CPU if own == every else NEXT_CPU * (len(every) + 1)

    def _lines(self, size: int) -> list[tuple[bytes, list[int]]]:
        """Return the name and the ticks of each CPU among the first bytes of the file."""
        found = []
        for line in os.pread(self._stat, size, 0).splitlines():
            name, *ticks = line.split() or [b""]
            if name.startswith(b"cpu") and len(ticks) > STEAL:
                found.append((name, [int(each) for each in ticks]))
        return found

    def find(self) -> None:
        """Find new descendants of this process, such as its sensor process or loaders of input."""
        self._descendants = {child.pid for child in psutil.Process().children(recursive=True)}

    def read(self) -> BlockCounters:
        """Return the counters; the time of a descendant counts as others' from its start until `find`."""
        idle = stolen = 0
        for name, ticks in self._lines(self._bytes):
            if name in self._names:
                idle += ticks[IDLE] + ticks[IO_WAIT]
                stolen += ticks[STEAL]
        # Idle time is exact on a kernel without periodic ticks, unlike the time by kind of work.
        busy_s = self.cpus * time.perf_counter() - (idle + stolen) * TICK_S
        waited_ns, slices = self._waits.read() if self._waits else (0, 0)
        throttled = throttled_between(self._throttling, collect_throttling(self._root)) if self._throttling else None
        return BlockCounters(
            busy_s=busy_s,
            own_s=self._own(),
            stolen_s=stolen * TICK_S,
            throttled_s=throttled.seconds if throttled else 0.0,
            suspended_s=suspended_s(),
            waited_s=waited_ns / 1e9,
            slices=slices,
            switches=resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw if self._waits else 0,
        )

    def _own(self) -> float:
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = time.process_time() + ended.ru_utime + ended.ru_stime
        for process in list(self._descendants):
            try:
                seconds += time.clock_gettime(cpu_clock(process))
            except OSError:  # it has ended, and its parent's counters include it
                self._descendants.discard(process)
        return seconds

    def close(self) -> None:
        """Close the files."""
        os.close(self._stat)
        if self._waits:
            self._waits.close()


def cpu_clock(process: int) -> int:
    """Return the identifier of the clock of a process's CPU time, as `clock_getcpuclockid` does on Linux."""
    return (~process << 3) | 2


def open_blocks(launching: bool = False) -> BlockLog | None:
    """Return a log of blocks; None if the system does not count what others use.

    With `launching`, blocks are chosen by the waiting of the calling thread.
    """
    if not hasattr(os, "sched_getaffinity"):
        return None
    try:
        return BlockLog(OtherProcesses(launching))
    except NoCounters:
        return None
