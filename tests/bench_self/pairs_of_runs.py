"""Verdicts of `compare` on real runs: of the same code, and of code with 10 % more work.

Groups of runs of A and B are measured alternately, and two consecutive groups are a pair. Earlier runs of A provide
the spread between runs. Environment variables: `PAIRS`, the number of pairs (20); `RUNS`, the runs per side (3);
`PAST`, the earlier runs (8); `ROUNDS`, the repetitions of a point (3); `LOADED=1` keeps one core busy.
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
    *("run", "resizable", "resizable-arrays", "--device", "cpu", "--no-ceilings"),
    *("--rounds", str(ROUNDS), "--max-seconds", str(ROUNDS), "--out"),
)


def compared_with_itself(console: Console) -> list[Bound]:
    """Return the shares of points without noise and of pairs that are reported as different by mistake."""
    points = Bound("same code: points without noise reported as different", "", at_most=0.05)
    pairs = Bound("same code: pairs with exit status 3", "", at_most=0.05)
    found = list(measured_pairs(console, 1.0))
    decided = [change for comparison in found for change in comparison.changes if not change.only_noisy]
    if decided:
        points.found.append(sum(change.verdict in ("faster", "slower") for change in decided) / len(decided))
    pairs.found.append(sum(bool(regressions(comparison, FailOn(5))) for comparison in found) / len(found))
    return [points, pairs]


def compared_with_more_work(console: Console) -> list[Bound]:
    """Return the share of pairs, and of points without noise, in which 10 % more work is detected."""
    pairs = Bound("10 % more work: pairs with a slower point and no faster one", "", at_least=0.9)
    points = Bound("10 % more work: points without noise reported as slower", "")
    found = list(measured_pairs(console, MORE_WORK))
    verdicts = [{change.verdict for change in comparison.changes} for comparison in found]
    pairs.found.append(sum("slower" in each and "faster" not in each for each in verdicts) / len(found))
    decided = [change for comparison in found for change in comparison.changes if not change.only_noisy]
    if decided:
        points.found.append(sum(change.verdict == "slower" for change in decided) / len(decided))
    return [pairs, points]


def measured_pairs(console: Console, more_work: float) -> Iterator[Comparison]:
    """Yield comparisons of consecutive groups, where B has `more_work` times the work of A."""
    with tempfile.TemporaryDirectory() as folder, load_if_requested():
        past = [run(Path(folder, f"past-{number}"), 1.0) for number in range(PAST)]
        before: list[RunStore] = []
        for number in range(PAIRS + 1):
            factor = more_work if number % 2 else 1.0
            group = [run(Path(folder, f"{number}-{each}"), factor) for each in range(RUNS)]
            if before:
                a, b = (before, group) if number % 2 else (group, before)
                comparison = compare(a, b, history=past)
                text = ", ".join(f"{change.point.split('=')[-1]} {_text(change)}" for change in comparison.changes)
                console.print(f"pair {number}, work × {more_work:g}: {text}")
                yield comparison
            before = group


def _text(change: PointChange) -> str:
    speed = f" × {change.evidence.speed.value:.3f}" if change.evidence else ""
    return f"{change.verdict}{speed}{' (noisy)' if change.only_noisy else ''}"


def run(out: Path, more_work: float) -> RunStore:
    """Measure the benchmark in a new run."""
    environment = {**os.environ, "ACCELBENCH_PATH": str(BENCHMARK), "MORE_WORK": str(more_work)}
    subprocess.run(accelbench(*MEASURE, str(out)), check=True, stdout=subprocess.DEVNULL, env=environment)
    return RunStore.open(out)


@contextmanager
def load_if_requested() -> Iterator[None]:
    """Keep one core busy during the block if `LOADED` is set."""
    if not os.environ.get("LOADED"):
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()
