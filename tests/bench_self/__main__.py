"""Self-benchmarks: kernels compared with independent programs, start-up, harness overhead, memory, statistics.

Run by `make bench-self`. Because machines are shared and noisy, every comparison is a ratio of consecutive
measurements, repeated and shown with its range. Environment variables of OpenBLAS and threads are removed first.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from accelbench.profiling.machine.environment.settings import THREADS
from tests.bench_self.attach import overhead_of_attaching
from tests.bench_self.busy import beside_busy_processes, reading_causes
from tests.bench_self.caches import against_likwid_by_level
from tests.bench_self.harness import quick_suite, start_up
from tests.bench_self.likwid import against_likwid
from tests.bench_self.matmul import matmul_against_vendor
from tests.bench_self.network import gloo_against_bare_loop, pingpong_against_netpipe
from tests.bench_self.pairs_of_runs import compared_with_itself, compared_with_more_work
from tests.bench_self.probes import profiler_overhead
from tests.bench_self.scripts import answers_on_scripts, predicted_steps
from tests.bench_self.statistics import (
    coverage_beside_bursts,
    coverage_over_repetitions,
    coverage_within,
    differences_between_runs,
    false_alarms,
    stopping,
)
from tests.bench_self.strategies import strategy_against_none
from tests.bench_self.training import against_bare_fit
from tests.bench_self.treesearch import flowshop, nqueens, uts
from tests.bench_self.verdicts import verdicts_on_known_cases
from tests.bench_self.xla import against_bare_jax

REPORT_WIDTH = 120
PARTS = {
    "statistics": (
        coverage_within,
        coverage_over_repetitions,
        coverage_beside_bursts,
        stopping,
        false_alarms,
        differences_between_runs,
    ),
    "likwid": (against_likwid,),
    "caches": (against_likwid_by_level,),
    "matmul": (matmul_against_vendor,),
    "jax": (against_bare_jax,),
    "treesearch": (nqueens, uts, flowshop),
    "training": (against_bare_fit,),
    "probes": (profiler_overhead,),
    "strategies": (strategy_against_none,),
    "network": (pingpong_against_netpipe, gloo_against_bare_loop),
    "pairs-of-runs": (compared_with_itself, compared_with_more_work),
    "harness": (start_up, quick_suite),
    "busy": (reading_causes, beside_busy_processes),
    "verdicts": (verdicts_on_known_cases,),
    "scripts": (answers_on_scripts, predicted_steps),
    "attach": (overhead_of_attaching,),
}


def limiting_variables(environment: Mapping[str, str]) -> list[str]:
    """Return the variables that select OpenBLAS kernels, or the number or placement of threads."""
    return sorted(name for name in environment if name.startswith("OPENBLAS_") or name in THREADS)


def main() -> int:
    """Measure and print every bound; return exit status 1 if a bound is missed."""
    if limiting := limiting_variables(os.environ):
        removed = ", ".join(f"{name}={os.environ[name]}" for name in limiting)
        print(f"removed from the environment: {removed}", flush=True)
        # The loaded libraries have read the variables already, so the process is restarted.
        free = {name: value for name, value in os.environ.items() if name not in limiting}
        os.execve(sys.executable, [sys.executable, "-m", "tests.bench_self", *sys.argv[1:]], free)
    parser = argparse.ArgumentParser(prog="python -m tests.bench_self", description=__doc__)
    parser.add_argument("part", nargs="*", help=f"parts to measure, by default all: {', '.join(PARTS)}")
    parts = parser.parse_args().part
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        parser.error(f"unknown part {', '.join(unknown)} (choose {', '.join(PARTS)})")
    console = Console(highlight=False, width=None if sys.stdout.isatty() else REPORT_WIDTH)
    bounds = [bound for part in parts or PARTS for measure in PARTS[part] for bound in measure(console)]
    table = Table("bound", "median", "range", "must be", "", box=None, header_style="bold")
    for bound in bounds:
        if bound.found:
            spread = f"{min(bound.found):.3g} – {max(bound.found):.3g}"
            table.add_row(
                bound.name,
                f"{statistics.median(bound.found):.3g} {bound.unit}",
                spread,
                bound.limit(),
                bound.verdict(),
            )
    console.print(table)
    return int(any("missed" in bound.verdict() for bound in bounds if bound.found))


if __name__ == "__main__":
    sys.exit(main())
