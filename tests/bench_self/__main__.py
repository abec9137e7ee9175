"""The suite's own figures: its kernels beside independent programs, its start-up, its share of a run, its memory.

Run by `make bench-self`. Machines are shared and noisy: every comparison is a ratio of neighbours in time, repeated in
rounds, and shown with its range. What the caller's environment says of OpenBLAS and of threads is taken out of the way.
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
from tests.bench_self.caches import against_likwid_by_level
from tests.bench_self.harness import quick_suite, start_up
from tests.bench_self.likwid import against_likwid
from tests.bench_self.matmul import matmul_beside_vendor
from tests.bench_self.network import gloo_beside_bare_loop, pingpong_beside_netpipe
from tests.bench_self.pairs_of_runs import compared_with_itself, compared_with_more_work
from tests.bench_self.probes import probes_beside_work
from tests.bench_self.statistics import (
    coverage_over_rounds,
    coverage_within,
    false_alarms,
    stopping,
    told_between_runs,
)
from tests.bench_self.strategies import strategy_beside_none
from tests.bench_self.training import against_bare_fit
from tests.bench_self.treesearch import flowshop, nqueens, uts
from tests.bench_self.verdicts import verdicts_on_known_cases

REPORT_WIDTH = 120
PARTS = {
    "statistics": (coverage_within, coverage_over_rounds, stopping, false_alarms, told_between_runs),
    "likwid": (against_likwid,),
    "caches": (against_likwid_by_level,),
    "matmul": (matmul_beside_vendor,),
    "treesearch": (nqueens, uts, flowshop),
    "training": (against_bare_fit,),
    "probes": (probes_beside_work,),
    "strategies": (strategy_beside_none,),
    "network": (pingpong_beside_netpipe, gloo_beside_bare_loop),
    "pairs-of-runs": (compared_with_itself, compared_with_more_work),
    "harness": (start_up, quick_suite),
    "verdicts": (verdicts_on_known_cases,),
}


def in_the_way(environment: Mapping[str, str]) -> list[str]:
    """Return the variables that hold back OpenBLAS or the number and places of threads."""
    return sorted(name for name in environment if name.startswith("OPENBLAS_") or name in THREADS)


def main() -> int:
    """Measure and print every bound; the exit status is 1 if one was missed."""
    if held := in_the_way(os.environ):
        print(f"taken out of the way: {', '.join(f'{name}={os.environ[name]}' for name in held)}", flush=True)
        # Libraries that are loaded already have read them, so this begins anew.
        free = {name: value for name, value in os.environ.items() if name not in held}
        os.execve(sys.executable, [sys.executable, "-m", "tests.bench_self", *sys.argv[1:]], free)
    parser = argparse.ArgumentParser(prog="python -m tests.bench_self", description=__doc__)
    parser.add_argument("part", nargs="*", help=f"only these: {', '.join(PARTS)}")
    asked = parser.parse_args()
    unknown = [part for part in asked.part if part not in PARTS]
    if unknown:
        parser.error(f"no part is called {' or '.join(unknown)}: {', '.join(PARTS)}")
    console = Console(highlight=False, width=None if sys.stdout.isatty() else REPORT_WIDTH)
    bounds = [bound for part in asked.part or PARTS for measure in PARTS[part] for bound in measure(console)]
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
