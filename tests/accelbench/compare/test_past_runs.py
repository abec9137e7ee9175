"""The spread between past runs in a comparison."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from accelbench.compare.change import PointChange
from accelbench.compare.runs import compare
from accelbench.execution.store import RunStore
from tests.fixtures.compare_runs import NOW, Runs, evidence_of, machine, repetitions, run, steady

QUIET = [1.0, 1.004, 0.997, 1.002, 0.995, 1.006, 0.999, 1.003]
WILD = [1.0, 1.2, 0.85, 1.1, 0.9, 1.25, 0.95, 1.05]


def past(path: Path, medians: list[float], **fields: Any) -> list[RunStore]:
    """Return runs of one point with these medians, at intervals of one hour."""
    return [
        run(path / f"past-{number}", [steady(median)], created=NOW + timedelta(hours=number), **fields)
        for number, median in enumerate(medians)
    ]


def test_the_spread_between_past_runs_replaces_the_assumed_spread(runs: Runs, tmp_path: Path) -> None:
    def compared(history: list[RunStore]) -> PointChange:
        a, b = (runs.stored(repetitions([median * x for x in (1.0, 1.001, 0.999)])) for median in (1.0, 1.1))
        (change,) = compare([a], [b], history=history).changes
        return change

    assert compared([]).verdict == "inconclusive"
    quiet = compared(past(tmp_path / "quiet", QUIET))
    assert quiet.verdict == "slower"
    assert "past runs" in evidence_of(quiet).basis
    assert compared(past(tmp_path / "wild", WILD)).verdict == "inconclusive"
    elsewhere = past(tmp_path / "elsewhere", QUIET, environment=machine(cpu={"model": "EPYC 9965"}))
    assert compared(elsewhere).verdict == "inconclusive"


def test_the_spread_between_past_runs_is_pooled_with_that_of_the_sides(runs: Runs, tmp_path: Path) -> None:
    sides = [1.0, 1.03, 0.98], [1.05, 1.08, 1.03]
    alone = runs.several(*sides)
    even = runs.several(*sides, history=past(tmp_path / "even", [1 + 4 * (median - 1) for median in QUIET]))
    assert (alone.verdict, even.verdict) == ("inconclusive", "slower")
    assert "past runs" in evidence_of(even).basis


def test_past_runs_with_a_much_smaller_spread_are_ignored(runs: Runs, tmp_path: Path) -> None:
    sides = [1.0, 1.03, 0.98], [1.05, 1.08, 1.03]
    alone, quiet = runs.several(*sides), runs.several(*sides, history=past(tmp_path / "quiet", QUIET))
    assert evidence_of(quiet).error == pytest.approx(evidence_of(alone).error)


def test_three_runs_that_agree_by_chance_are_inconclusive_if_past_runs_varied_more(runs: Runs, tmp_path: Path) -> None:
    lucky = [1.0, 1.001, 0.999], [1.05, 1.051, 1.049]
    assert runs.several(*lucky).verdict == "slower"
    assert runs.several(*lucky, history=past(tmp_path / "wild", WILD)).verdict == "inconclusive"


def test_noisy_past_runs_of_kernels_count(runs: Runs, tmp_path: Path) -> None:
    history = [
        run(tmp_path / f"past-{n}", [steady(median, noise=["busy"])], created=NOW + timedelta(hours=n))
        for n, median in enumerate(WILD)
    ]
    lucky = [1.0, 1.001, 0.999], [1.05, 1.051, 1.049]
    assert runs.several(*lucky, history=history).verdict == "inconclusive"


def test_past_runs_give_a_side_of_one_run_its_spread(runs: Runs, tmp_path: Path) -> None:
    change = runs.several([1.0], [1.1, 1.101, 1.099], history=past(tmp_path / "quiet", QUIET))
    assert evidence_of(change).assumption is None
    assert change.verdict == "slower"


def test_compared_runs_are_excluded_from_the_history(runs: Runs) -> None:
    a, b = [runs.stored([steady(1.0)]) for _ in range(2)]
    (change,) = compare([a], [b], history=[a, b] * 5).changes
    assert "past runs" not in evidence_of(change).basis
