"""Overhead of the harness: start-up time, share of a run, memory."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from time import perf_counter, sleep

import psutil
from rich.console import Console

from tests.bench_self.bounds import Bound, accelbench
from tests.conftest import records

STARTS = 10
RUNNER_MEMORY_LIMIT = 200e6


def start_up(console: Console) -> list[Bound]:
    """Measure the wall time of commands that must start fast."""
    console.print("start-up")
    bounds = []
    for arguments in (("list",), ("--help",)):
        bound = Bound(f"accelbench {arguments[0]}", "s", at_most=0.5)
        for _ in range(STARTS):
            begin = perf_counter()
            subprocess.run(accelbench(*arguments), check=True, stdout=subprocess.DEVNULL)
            bound.found.append(perf_counter() - begin)
        bounds.append(bound)
    return bounds


def quick_suite(console: Console) -> list[Bound]:
    """Measure wall time, harness share and the runner's peak memory of the suite quick."""
    console.print("suite quick")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        begin = perf_counter()
        command = accelbench("run", "--suite", "quick", "--device", "cpu", "--out", str(out))
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        peak = 0
        while process.poll() is None:
            peak = max(peak, runner_memory(process.pid))
            sleep(0.2)
        wall = perf_counter() - begin
        if process.returncode != 0:
            raise RuntimeError(f"the suite quick ended with exit status {process.returncode}")
        used = sum(sum(record["phases"].values()) for record in records(out))
    return [
        Bound("suite quick, wall time", "min", at_most=5, found=[wall / 60]),
        Bound("suite quick, share of the harness", "", at_most=0.05, found=[1 - used / wall]),
        Bound("suite quick, peak memory of the runner", "MB", at_most=RUNNER_MEMORY_LIMIT / 1e6, found=[peak / 1e6]),
    ]


def runner_memory(pid: int) -> int:
    """Return the resident bytes of one process without its workers; 0 after it has ended."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.NoSuchProcess:
        return 0
