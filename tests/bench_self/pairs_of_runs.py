"""The verdicts of `compare` on real runs: of the same code, and of code that does a tenth more work.

Groups of runs of A and of B are measured in turns, and every two neighbours are a pair; runs of A before all of them
tell what is normal. `PAIRS` and `RUNS` say how many pairs, and how many runs a side (20 and 3); `PAST` how many runs
come before (8); `ROUNDS` in how many processes each measures a point (3); `LOADED=1` keeps one core busy meanwhile.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from accelbench.compare.change import PointChange
from accelbench.compare.regression import FailOn, regressions
from accelbench.compare.runs import Comparison, compare
from accelbench.execution.store import RunStore
from tests.bench_self.bounds import Bound, accelbench

PAIRS, RUNS, PAST = (int(os.environ.get(name, default)) for name, default in (("PAIRS", 20), ("RUNS", 3), ("PAST", 8)))
BENCHMARK = Path(__file__).with_name("resizable")
MORE_WORK = 1.1
ROUNDS = int(os.environ.get("ROUNDS", "3"))
MEASURE = (
    *("run", "resizable", "--device", "cpu", "--no-ceilings"),
    *("--rounds", str(ROUNDS), "--max-seconds", str(ROUNDS), "--out"),
)


def compared_with_itself(console: Console) -> list[Bound]:
    """Return the shares of undisturbed points and of pairs that are called different although nothing is."""
    points = Bound("same code: undisturbed points called different", "", at_most=0.05)
    pairs = Bound("same code: pairs that end with status 3", "", at_most=0.05)
    found = list(measured_pairs(console, 1.0))
    told = [change for comparison in found for change in comparison.changes if not change.barred]
    if told:
        points.found.append(sum(change.verdict in ("faster", "slower") for change in told) / len(told))
    pairs.found.append(sum(bool(regressions(comparison, FailOn(5))) for comparison in found) / len(found))
    return [points, pairs]


def compared_with_more_work(console: Console) -> list[Bound]:
    """Return the share of undisturbed points at which a tenth more work is found."""
    bound = Bound("a tenth more work: undisturbed points called slower", "", at_least=0.9)
    changes = [change for comparison in measured_pairs(console, MORE_WORK) for change in comparison.changes]
    told = [change for change in changes if not change.barred]
    if told:
        bound.found.append(sum(change.verdict == "slower" for change in told) / len(told))
    return [bound]


def measured_pairs(console: Console, more_work: float) -> Iterator[Comparison]:
    """Yield comparisons of neighbours, where B has so many times the work of A."""
    with tempfile.TemporaryDirectory() as folder, load_if_asked():
        past = [run(Path(folder, f"past-{number}"), 1.0) for number in range(PAST)]
        before: list[RunStore] = []
        for number in range(PAIRS + 1):
            factor = more_work if number % 2 else 1.0
            group = [run(Path(folder, f"{number}-{each}"), factor) for each in range(RUNS)]
            if before:
                a, b = (before, group) if number % 2 else (group, before)
                comparison = compare(a, b, history=past)
                told = ", ".join(f"{change.point.split('=')[-1]} {_told(change)}" for change in comparison.changes)
                console.print(f"pair {number}, work × {more_work:g}: {told}")
                yield comparison
            before = group


def _told(change: PointChange) -> str:
    speed = f" × {change.evidence.speed.value:.3f}" if change.evidence else ""
    return f"{change.verdict}{speed}{' (disturbed)' if change.barred else ''}"


def run(out: Path, more_work: float) -> RunStore:
    """Measure the benchmark in a run of its own."""
    environment = {**os.environ, "ACCELBENCH_PATH": str(BENCHMARK), "MORE_WORK": str(more_work)}
    subprocess.run(accelbench(*MEASURE, str(out)), check=True, stdout=subprocess.DEVNULL, env=environment)
    return RunStore.open(out)


@contextmanager
def load_if_asked() -> Iterator[None]:
    """Keep one core busy while it lasts, where `LOADED` is set."""
    if not os.environ.get("LOADED"):
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()
