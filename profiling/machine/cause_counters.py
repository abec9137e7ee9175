"""Kernel counters of what disturbs this process: waiting for a CPU, steal, quota and suspension.

Sources: Linux `Documentation/scheduler/sched-stats.rst`, proc(5), getrusage(2), cgroup-v2.rst.
"""

from __future__ import annotations

import contextlib
import os
import resource
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from accelbench.profiling.machine.environment.limits import collect_cpu_quota, collect_throttling, throttled_between
from accelbench.profiling.timing.causes import TICK_S, WINDOW_S, CauseLog, MachineCounters, WaitCounters, WaitSource


@dataclass(slots=True)
class _ThreadFile:
    """Open `schedstat` of a thread, with its last content and the one at the last search for threads."""

    descriptor: int
    content: bytes = b""
    earlier: bytes = b""
    waited_ns: int = 0
    slices: int = 0


class ThreadWaits:
    """Waiting of the threads of this process, by descriptors that are kept open; of all, or of `only` one thread."""

    def __init__(self, root: Path = Path("/"), only: int | None = None) -> None:
        self._only = only
        self._tasks = root / "proc/self/task"
        self._folder = os.open(self._tasks, os.O_RDONLY | os.O_DIRECTORY)
        self._open: dict[str, _ThreadFile] = {}
        self._running: list[_ThreadFile] = []
        self._searched_s = time.perf_counter()
        self._links = -1
        self._waited_ns = self._slices = 0
        self.find_threads()

    def read(self) -> tuple[int, int]:
        """Return the nanoseconds of waiting and the number of time slices, ended threads included.

        Threads that slept before the last search are not read: most threads of a process are idle.
        """
        if not self._read(self._running):
            self._find_threads()
        return self._waited_ns, self._slices

    def find_threads(self) -> None:
        """Find new threads, and those that ran since the last search; `read` returns what all have waited so far."""
        links = os.fstat(self._folder).st_nlink
        if not self._read(self._open.values()) or links != self._links:
            self._links = links
            self._find_threads()
        elif time.perf_counter() - self._searched_s >= WINDOW_S:
            self._searched_s = time.perf_counter()
            self._running = [file for file in self._open.values() if file.content != file.earlier]
            for file in self._running:
                file.earlier = file.content

    def close(self) -> None:
        """Close all descriptors."""
        for descriptor in [self._folder, *(file.descriptor for file in self._open.values())]:
            os.close(descriptor)
        self._open.clear()

    def _read(self, files: Iterable[_ThreadFile]) -> bool:
        """Add what these threads have waited; return False if one of them has ended."""
        ended = False
        for file in files:
            try:
                content = os.pread(file.descriptor, 96, 0)
                if content == file.content:
                    continue
                _, waited, slices = content.split()
                waited_ns, slices_now = int(waited), int(slices)
            except (OSError, ValueError):
                ended = True
                continue
            self._waited_ns += waited_ns - file.waited_ns
            self._slices += slices_now - file.slices
            file.content, file.waited_ns, file.slices = content, waited_ns, slices_now
        return not ended

    def _find_threads(self) -> None:
        there = os.listdir(self._tasks) if self._only is None else [str(self._only)]
        for thread in self._open.keys() - set(there):
            os.close(self._open.pop(thread).descriptor)  # the number may be used again
        for thread in there:
            if thread not in self._open:
                try:
                    file = _ThreadFile(os.open(self._tasks / thread / "schedstat", os.O_RDONLY))
                except OSError:  # it has ended, or the descriptors are used up
                    continue
                if self._read([file]) and file.content:
                    self._open[thread] = file
                else:
                    os.close(file.descriptor)
        self._running = list(self._open.values())


def pinned_thread() -> int | None:
    """Return the calling thread's ID if it is pinned to one CPU and others are not, as in points on one core.

    The other threads are then idle helpers of libraries, and their waiting disturbs no sample.
    """
    if not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) > 1:
        return None
    this, sizes = threading.get_native_id(), []
    for thread in os.listdir("/proc/self/task") if os.path.isdir("/proc/self/task") else ():
        with contextlib.suppress(OSError):  # it has ended
            sizes += [len(os.sched_getaffinity(int(thread)))] if int(thread) != this else []
    return this if sizes and min(sizes) > 1 else None


class KernelCounters:
    """Kernel counters of this process and machine; `source` is None if waiting cannot be observed."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.source: WaitSource | None = None
        self._threads: ThreadWaits | None = None
        self._waited_ns = self._switches = 0
        try:
            self._threads = ThreadWaits(root, pinned_thread())
        except OSError:
            usage = resource.getrusage(resource.RUSAGE_SELF)
            # Where a sandbox counts no switches, they would be 0 after the imports, too.
            self.source = "switches" if usage.ru_nivcsw and usage.ru_nvcsw else None
        else:
            _, slices = self._threads.read()
            self.source = "schedstat" if slices else None
        self._stat: int | None = None
        if hasattr(os, "sched_getaffinity"):
            usable = os.sched_getaffinity(0)
            self._cpus = {f"cpu{number}".encode() for number in usable}
            # The lines of CPUs are first, in the order of their numbers and each below 160 bytes, after the sum of all.
            self._bytes = 160 * (max(usable) + 2)
            try:
                self._stat = os.open(root / "proc/stat", os.O_RDONLY)
            except OSError:
                self._stat = None
        self._root = root
        self._throttling = collect_throttling(root) if collect_cpu_quota(root) is not None else {}

    def waits(self) -> WaitCounters:
        """Return the counters of the process."""
        cpu_s = time.process_time()
        if self._threads is None:
            return WaitCounters(switches=resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw, cpu_s=cpu_s)
        waited_ns, slices = self._threads.read()
        if waited_ns != self._waited_ns:  # a thread that is switched off involuntarily waits
            self._waited_ns = waited_ns
            self._switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
        return WaitCounters(waited_ns, slices, self._switches, cpu_s)

    def machine(self) -> MachineCounters:
        """Return the counters of the machine; find the threads that run, which need not be done as often."""
        if self._threads:
            self._threads.find_threads()
        throttled = throttled_between(self._throttling, collect_throttling(self._root)) if self._throttling else None
        return MachineCounters(
            self._stolen(), throttled.seconds if throttled else 0.0, suspended_s() if self._stat is not None else 0.0
        )

    def close(self) -> None:
        """Close the descriptors."""
        if self._threads:
            self._threads.close()
        if self._stat is not None:
            os.close(self._stat)

    def _stolen(self) -> float:
        """Return the stolen seconds of the process's CPUs, in whole ticks."""
        if self._stat is None:
            return 0.0
        lines = os.pread(self._stat, self._bytes, 0).splitlines()
        ticks = 0
        for line in lines:
            fields = line.split()
            if len(fields) > 9 and fields[0] in self._cpus:
                ticks += int(fields[8])
        return ticks * TICK_S


def suspended_s() -> float:
    """Return the seconds of suspension since the boot, which CLOCK_MONOTONIC does not count."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


def open_causes(root: Path = Path("/")) -> CauseLog | None:
    """Return a log that begins now; None if the system does not count what disturbs a process."""
    counters = KernelCounters(root)
    if counters.source is None:
        counters.close()
        return None
    return CauseLog(counters)
