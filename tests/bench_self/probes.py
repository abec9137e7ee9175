"""The cost of each probe to the work beside it: ratios of stretches with and without it, in turns.

Stretches are compared by their mean, not their median: a probe that halts the work ten times a second leaves most
short executions alone.
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

STRETCH_S = 2.5
"""The seconds of a stretch: a window of py-spy and what it takes to start it."""
ROUNDS = 6
"""The pairs of stretches: the fewest whose extremes hold the median with 95 %."""

Probe = Callable[[], AbstractContextManager[object]]


def probes_beside_work(console: Console) -> list[Bound]:
    """Telemetry, the kernel's counters and py-spy at its default rate beside products of matrices."""
    allow_tracing(os.getpid())
    bounds = []
    with TemporaryDirectory() as folder:
        for name, probe in probes(Path(folder)).items():
            cost = measure_overhead(probe, matrix_product())
            console.print(f"{name}: {cost.sentence()}")
            found = [cost.low, cost.factor, cost.high]
            bounds.append(Bound(f"{name}, work beside it ÷ alone", "×", at_most=1 + BUDGET, found=found))
    return bounds


def measure_overhead(probe: Probe, run: Callable[[], object], rounds: int = ROUNDS) -> SamplingOverhead:
    """Work through pairs of stretches, one with the probe and one without, their order turned every other time."""
    factors = []
    for number in range(rounds):
        without = _stretch(run) if number % 2 else 0.0
        with probe():
            watched = _stretch(run)
        factors.append(watched / (without or _stretch(run)))
    return summarized(factors)


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
