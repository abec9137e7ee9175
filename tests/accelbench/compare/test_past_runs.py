"""What runs of the past tell a comparison: how much runs of the same code differ on this machine."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from accelbench.compare.change import PointChange
from accelbench.compare.runs import compare
from accelbench.execution.store import RunStore
from tests.fixtures.compare_runs import NOW, Runs, evidence_of, machine, run, steady

QUIET = [1.0, 1.004, 0.997, 1.002, 0.995, 1.006, 0.999, 1.003]
WILD = [1.0, 1.2, 0.85, 1.1, 0.9, 1.25, 0.95, 1.05]


def past(path: Path, medians: list[float], **fields: Any) -> list[RunStore]:
    """Return runs of one point, an hour after each other, with these medians."""
    return [
        run(path / f"past-{number}", [steady(median)], created=NOW + timedelta(hours=number), **fields)
        for number, median in enumerate(medians)
    ]


def test_the_spread_of_past_runs_is_what_is_normal_here(runs: Runs, tmp_path: Path) -> None:
    def answer(history: list[RunStore]) -> PointChange:
        a, b = runs.stored([steady(1.0)]), runs.stored([steady(1.1)])
        (change,) = compare([a], [b], history=history).changes
        return change

    assert answer([]).verdict == "cannot tell"
    quiet = answer(past(tmp_path / "quiet", QUIET))
    assert quiet.verdict == "slower"
    assert evidence_of(quiet).basis == "one process each, and the spread of past runs here"
    assert answer(past(tmp_path / "wild", WILD)).verdict == "cannot tell"
    elsewhere = past(tmp_path / "elsewhere", QUIET, environment=machine(cpu={"model": "EPYC 9965"}))
    assert answer(elsewhere).verdict == "cannot tell"


def test_the_spread_of_past_runs_also_counts_beside_that_of_three_runs_a_side(runs: Runs, tmp_path: Path) -> None:
    sides = [1.0, 1.03, 0.98], [1.05, 1.08, 1.03]
    alone = runs.several(*sides)
    even = runs.several(*sides, history=past(tmp_path / "even", [1 + 4 * (median - 1) for median in QUIET]))
    assert (alone.verdict, even.verdict) == ("cannot tell", "slower")
    assert evidence_of(even).basis == "3 and 3 runs, and the spread of past runs here"


def test_a_past_that_varied_far_less_than_these_runs_do_does_not_count(runs: Runs, tmp_path: Path) -> None:
    sides = [1.0, 1.03, 0.98], [1.05, 1.08, 1.03]
    alone, quiet = runs.several(*sides), runs.several(*sides, history=past(tmp_path / "quiet", QUIET))
    assert evidence_of(quiet).error == pytest.approx(evidence_of(alone).error)


def test_three_runs_that_happen_to_agree_are_not_told_apart_where_the_past_varied_more(
    runs: Runs, tmp_path: Path
) -> None:
    lucky = [1.0, 1.001, 0.999], [1.05, 1.051, 1.049]
    assert runs.several(*lucky).verdict == "slower"
    assert runs.several(*lucky, history=past(tmp_path / "wild", WILD)).verdict == "cannot tell"


def test_disturbed_past_runs_of_kernels_tell_what_is_normal_too(runs: Runs, tmp_path: Path) -> None:
    history = [
        run(tmp_path / f"past-{n}", [steady(median, noise=["busy"])], created=NOW + timedelta(hours=n))
        for n, median in enumerate(WILD)
    ]
    lucky = [1.0, 1.001, 0.999], [1.05, 1.051, 1.049]
    assert runs.several(*lucky, history=history).verdict == "cannot tell"


def test_the_past_stands_for_a_side_of_one_run(runs: Runs, tmp_path: Path) -> None:
    change = runs.several([1.0], [1.1, 1.101, 1.099], history=past(tmp_path / "quiet", QUIET))
    assert evidence_of(change).unknown is None
    assert change.verdict == "slower"


def test_the_runs_that_are_compared_are_no_history_of_themselves(runs: Runs) -> None:
    a, b = [runs.stored([steady(1.0)]) for _ in range(2)]
    (change,) = compare([a], [b], history=[a, b] * 5).changes
    assert evidence_of(change).basis == "one process each"
