"""Overhead of each profiler: ratios of alternate periods of work with and without it.

Periods are compared by the mean execution, not the median, since a profiler that stops the work ten times a second does
not affect most short executions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
from rich.console import Console

from accelbench.profiling.host.counters import HostCounterSampler
from accelbench.profiling.host.overhead import summarized
from accelbench.profiling.host.pyspy import allow_tracing
from accelbench.profiling.host.sampling import BUDGET, HostSampler
from accelbench.profiling.records.host import SamplingOverhead
from accelbench.profiling.telemetry.sampler import TelemetrySampler
from tests.bench_self.bounds import Bound

PERIOD_S = 2.5
"""Duration of a period in seconds: a window of py-spy and its start."""
ROUNDS = 6
"""Number of pairs of periods: with fewer, their range covers the median with less than 95 %."""

Probe = Callable[[], AbstractContextManager[object]]


def profiler_overhead(console: Console) -> list[Bound]:
    """Return the overhead of telemetry, of the kernel's counters and of py-spy on matrix products."""
    allow_tracing(os.getpid())
    bounds = []
    with TemporaryDirectory() as folder:
        for name, probe in probes(Path(folder)).items():
            cost = measure_overhead(probe, matrix_product())
            console.print(f"{name}: {cost.sentence()}")
            found = [cost.low, cost.factor, cost.high]
            bounds.append(Bound(f"{name}, work with it ÷ without", "×", at_most=1 + BUDGET, found=found))
    return bounds


def measure_overhead(probe: Probe, run: Callable[[], object], rounds: int = ROUNDS) -> SamplingOverhead:
    """Return the overhead over pairs of periods, one with the profiler and one without, in alternating order."""
    factors = []
    for number in range(rounds):
        without = _mean_seconds(run) if number % 2 else 0.0
        with probe():
            with_probe = _mean_seconds(run)
        factors.append(with_probe / (without or _mean_seconds(run)))
    return summarized(factors)


def probes(folder: Path) -> Mapping[str, Probe]:
    """Return the profilers by name, each for this process."""
    return {
        "telemetry": lambda: TelemetrySampler("cpu"),
        "host counters": lambda: HostCounterSampler(os.getpid()),
        "py-spy": lambda: HostSampler(os.getpid(), folder),
    }


def matrix_product() -> Callable[[], object]:
    """Return a function with some milliseconds of work for the BLAS threads and the interpreter."""
    matrix = np.random.default_rng(0).standard_normal((400, 400))
    return lambda: matrix @ matrix


def _mean_seconds(run: Callable[[], object]) -> float:
    """Work for one period, and return the mean seconds per execution."""
    begin, executions = perf_counter(), 0
    while perf_counter() < begin + PERIOD_S:
        run()
        executions += 1
    return (perf_counter() - begin) / executions
