"""Samples of a process's worker processes: children that run the same Python interpreter, as a loader's workers do."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import psutil

from accelbench.profiling.child import child_environment
from accelbench.profiling.host.pyspy import SamplingError, explain, find_pyspy, record_command
from accelbench.profiling.host.stacks import Stack, merge, parse_stacks
from accelbench.profiling.machine.environment.files import read_text

MOST_WORKERS = 4
"""Largest number of sampled workers: all at the same time."""
END_S = 10.0
"""Seconds that py-spy may take to read the interpreter, and to write its file."""


def sample_workers(pid: int, folder: Path, rate_hz: int, seconds: int) -> tuple[dict[int, Counter[Stack]], str | None]:
    """Return the stacks of the process's first workers by PID, and the reason if none could be sampled."""
    workers = _workers(pid)[:MOST_WORKERS]
    if not workers:
        return {}, None
    try:
        program = find_pyspy()
    except SamplingError as error:
        return {}, str(error)
    folder.mkdir(parents=True, exist_ok=True)
    samplers = {
        worker: subprocess.Popen(
            record_command(program, "all", worker, rate_hz, seconds, folder / f"worker-{worker}.txt"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=child_environment(),
            start_new_session=True,  # Ctrl-C must reach the run only
        )
        for worker in workers
    }
    complaints = list(filter(None, (_complaint(sampler, seconds + END_S) for sampler in samplers.values())))
    found = {worker: _read(folder / f"worker-{worker}.txt") for worker in workers}
    return found, explain(complaints[0]) if len(complaints) == len(workers) else None


def _workers(pid: int) -> list[int]:
    try:
        script = psutil.Process(pid)
        program, children = script.exe(), script.children()
    except psutil.Error:
        return []
    return [child.pid for child in children if _program(child) == program]


def _program(process: psutil.Process) -> str | None:
    try:
        return process.exe()
    except psutil.Error:
        return None


def _complaint(sampler: subprocess.Popen[str], limit_s: float) -> str:
    """Wait for the sampler; return what it printed if it failed."""
    try:
        printed = sampler.communicate(timeout=limit_s)[1]
    except subprocess.TimeoutExpired:
        sampler.kill()
        printed = sampler.communicate()[1]
    return printed if sampler.returncode else ""


def _read(path: Path) -> Counter[Stack]:
    """Return the stacks of the file, which is then removed; none if it is missing."""
    text = read_text(path)
    path.unlink(missing_ok=True)
    return merge([parse_stacks(text)] if text else [])
