"""Samples of a process's worker processes: children that run the same Python interpreter, as a loader's workers do."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path
from time import perf_counter, sleep

import psutil

from accelbench.profiling.child import child_environment
from accelbench.profiling.host.pyspy import SamplingError, explain, find_pyspy, record_command
from accelbench.profiling.host.stacks import Stack, merge, parse_stacks
from accelbench.profiling.machine.environment.files import read_text

MOST_WORKERS = 4
"""Largest number of sampled workers: all at the same time."""
MOST_ROUNDS, PAUSE_S = 8, 0.25
"""Largest number of times that the current workers are sampled, and the pause between two of them in seconds."""
END_S = 10.0
"""Seconds that py-spy may take to read the interpreter, and to write its file."""


def sample_workers(pid: int, folder: Path, rate_hz: int, seconds: int) -> tuple[dict[int, Counter[Stack]], str | None]:
    """Return the stacks of the process's first workers by PID, and the reason if none could be sampled.

    Loaders may start new workers in each epoch: if all end while they are sampled, their successors are sampled, too.
    """
    found: dict[int, Counter[Stack]] = {}
    reason, end = None, perf_counter() + seconds
    for _ in range(MOST_ROUNDS):
        workers = _workers(pid)[:MOST_WORKERS]
        if not workers and not found:
            break
        if workers:
            try:
                stacks, reason = _sample(workers, folder, rate_hz, seconds)
            except SamplingError as error:
                return {}, str(error)
            found |= stacks
        if perf_counter() >= end:
            break
        sleep(PAUSE_S)
    return found, None if any(found.values()) else reason


def _sample(
    workers: list[int], folder: Path, rate_hz: int, seconds: int
) -> tuple[dict[int, Counter[Stack]], str | None]:
    program = find_pyspy()
    folder.mkdir(parents=True, exist_ok=True)
    samplers = {}
    for worker in workers:
        output = folder / f"worker-{worker}.txt"
        with output.with_suffix(".log").open("w") as log:
            samplers[output] = subprocess.Popen(
                record_command(program, "all", worker, rate_hz, seconds, output),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=child_environment(),
                start_new_session=True,  # Ctrl-C must reach the run only
            )
    failures = [_wait(sampler, seconds + END_S) for sampler in samplers.values()]
    complaints = [_taken(output.with_suffix(".log")) for output in samplers]
    stacks = [merge([parse_stacks(_taken(output))]) for output in samplers]
    return dict(zip(workers, stacks, strict=True)), explain(complaints[0]) if all(failures) else None


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


def _wait(sampler: subprocess.Popen[bytes], limit_s: float) -> bool:
    """Wait for the sampler; return whether it failed."""
    try:
        return sampler.wait(limit_s) != 0
    except subprocess.TimeoutExpired:
        sampler.kill()
        return sampler.wait() != 0


def _taken(path: Path) -> str:
    """Return the content of the file, which is then removed; empty if it is missing."""
    text = read_text(path) or ""
    path.unlink(missing_ok=True)
    return text
