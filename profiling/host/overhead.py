"""The cost of the probes: work done with and without each of them, in turns, in one process.

Stretches are compared by their mean, not their median: a probe that halts the work ten times a second leaves most
short executions alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from time import perf_counter

import numpy as np

from profiling.host.counters import HostCounterSampler
from profiling.host.sampling import HostSampler
from profiling.machine.telemetry_sampler import TelemetrySampler
from profiling.records.host import Overhead, Window
from profiling.timing.statistics import median_interval

STRETCH_S = 2.5
"""The seconds of a stretch: a window of py-spy and what it takes to start it."""
ROUNDS = 6
"""The pairs of stretches: the fewest whose extremes hold the median with 95 %."""

Probe = Callable[[], AbstractContextManager[object]]


def measure_overhead(probe: Probe, run: Callable[[], object], rounds: int = ROUNDS) -> Overhead:
    """Work through pairs of stretches, one with the probe and one without, their order turned every other time."""
    factors = []
    for number in range(rounds):
        without = _stretch(run) if number % 2 else 0.0
        with probe():
            watched = _stretch(run)
        factors.append(watched / (without or _stretch(run)))
    return _summarized(factors)


def step_overhead(step_ends_s: Sequence[float], windows: Sequence[Window]) -> Overhead | None:
    """Return the cost of py-spy to the very training it watched: each window against the rest after it.

    `step_ends_s` are on the same clock as the windows, `time.perf_counter`, with NaN wherever what followed was no
    step. None if no window has whole steps on both sides.
    """
    ends = np.asarray(step_ends_s)
    begins, durations = ends[:-1], np.diff(ends)
    factors = []
    for number, window in enumerate(windows):
        rest_end = windows[number + 1].begin_s if number + 1 < len(windows) else np.inf
        inside = durations[(begins >= window.begin_s) & (ends[1:] <= window.end_s)]
        outside = durations[(begins >= window.end_s) & (ends[1:] <= rest_end)]
        if len(inside) and len(outside):
            factors.append(float(inside.mean() / outside.mean()))
    return _summarized(factors) if factors else None


def probes(folder: Path) -> Mapping[str, Probe]:
    """Return the probes by name, each around this very process."""
    return {
        "telemetry": lambda: TelemetrySampler("cpu"),
        "host counters": lambda: HostCounterSampler(os.getpid()),
        "py-spy": lambda: HostSampler(os.getpid(), folder),
    }


def matrix_product() -> Callable[[], object]:
    """Return some milliseconds of work that keeps the BLAS threads and the interpreter busy."""
    matrix = np.random.default_rng(0).standard_normal((400, 400))
    return lambda: matrix @ matrix


def _stretch(run: Callable[[], object]) -> float:
    """Work for one stretch, and return the mean seconds of an execution."""
    begin, executions = perf_counter(), 0
    while perf_counter() < begin + STRETCH_S:
        run()
        executions += 1
    return (perf_counter() - begin) / executions


def _summarized(factors: Sequence[float]) -> Overhead:
    interval = median_interval(factors)
    return Overhead(
        factor=float(np.median(factors)),
        low=interval.low,
        high=interval.high,
        confidence=interval.confidence,
        pairs=len(factors),
    )
