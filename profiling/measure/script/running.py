"""Observation of a running process from outside: samples of its Python code, its threads, and its GPUs.

Nothing is added to the process, so its steps are unknown.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep

import psutil

from accelbench.profiling.host.profiler import HostProfiler
from accelbench.profiling.machine.nvidia.nvml import Cards, cards_of_process
from accelbench.profiling.measure.script.lines import CodeLines, sampled_lines
from accelbench.profiling.measure.script.observe import BUDGET, RATE_HZ, SAMPLED_S
from accelbench.profiling.records.host import HostProfile
from accelbench.profiling.records.telemetry import Gauge, Reading
from accelbench.profiling.telemetry.sampler import summarize

SENSOR_S = 0.5
"""Seconds between two readings of the GPUs' sensors."""


class ProcessUnavailable(Exception):
    """Raised for a process that cannot be observed; the message has the reason and the remedy."""


@dataclass(frozen=True)
class RunningProcess:
    """Process that was started without the observation."""

    pid: int
    command: Sequence[str]
    roots: Sequence[Path]
    """Folders of the user's own files: the working folder and the script's folder, as this process reaches them."""

    @classmethod
    def find(cls, pid: int) -> RunningProcess:
        """Return the process with this PID. Raises ProcessUnavailable."""
        try:
            process = psutil.Process(pid)
            command, folder = process.cmdline(), process.cwd()
        except psutil.NoSuchProcess:
            raise ProcessUnavailable(f"there is no process {pid}, or it has ended") from None
        except psutil.AccessDenied:
            owner = psutil.Process(pid).username()
            raise ProcessUnavailable(
                f"process {pid} of {owner} may not be read: run accelbench as that user, and in the same container"
            ) from None
        if not command:
            raise ProcessUnavailable(f"process {pid} has no command line: it is a kernel thread, or has ended")
        if pid == os.getpid():
            raise ProcessUnavailable(f"process {pid} is this command")
        files = [word for word in command[1:] if word.endswith(".py")]
        folders = dict.fromkeys([folder, *(os.path.dirname(os.path.join(folder, file)) for file in files[:1])])
        return cls(pid, command, [Path(f"/proc/{pid}/root{place}") for place in folders])

    def is_own(self, file: str) -> Path | None:
        """Return the path of a file of the user's own code, as py-spy shortens it; None for other files."""
        found = next((path for root in self.roots if (path := root / file.lstrip("/")).is_file()), None)
        return None if found is None or "site-packages" in file else found


@dataclass(frozen=True)
class ProcessObservation:
    """Samples of a running process."""

    elapsed_s: float
    host: HostProfile
    lines: CodeLines
    cards: int
    """Number of GPUs on which the process has a context."""
    gauges: dict[str, Gauge]
    """Sensors of these GPUs."""
    missing: list[str]


def observe_process(process: RunningProcess, folder: Path, seconds: float) -> ProcessObservation:
    """Observe the process for the given seconds, or until it ends; stacks and flame graphs are written to `folder`."""
    missing: list[str] = []
    addresses = cards_of_process(process.pid)
    cards, readings = Cards(addresses, missing), list[list[Reading]]()
    device = "gpu" if addresses else "cpu"
    profiler = HostProfiler(process.pid, folder, device=device, budget=BUDGET, rate_hz=RATE_HZ)
    begin = perf_counter()
    with profiler:
        while perf_counter() - begin < max(seconds, SAMPLED_S) and psutil.pid_exists(process.pid):
            readings.append(cards.read())
            sleep(SENSOR_S)
    elapsed_s = perf_counter() - begin
    host = profiler.result()
    stacks = profiler.stacks()["all"]
    lines, without = sampled_lines(stacks, process.pid, folder, RATE_HZ, process.is_own, process.roots[0])
    missing = [*missing, *without, *host.missing]
    return ProcessObservation(elapsed_s, host, lines, len(addresses), summarize(readings), missing)
