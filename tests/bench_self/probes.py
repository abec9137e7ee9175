"""The cost of each probe to the work beside it: ratios of stretches with and without it, in turns."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from profiling.host.overhead import matrix_product, measure_overhead, probes
from profiling.host.pyspy import allow_tracing
from profiling.host.sampling import BUDGET
from tests.bench_self.bounds import Bound


def probes_beside_work(console: Console) -> list[Bound]:
    """Telemetry, the kernel's counters and py-spy at its default rate beside products of matrices."""
    allow_tracing()
    bounds = []
    with TemporaryDirectory() as folder:
        for name, probe in probes(Path(folder)).items():
            cost = measure_overhead(probe, matrix_product())
            console.print(f"{name}: {cost.sentence()}")
            found = [cost.low, cost.factor, cost.high]
            bounds.append(Bound(f"{name}, work beside it ÷ alone", "×", at_most=1 + BUDGET, found=found))
    return bounds
