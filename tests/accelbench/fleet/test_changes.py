"""Tests of two measurements of a fleet, compared node by node."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accelbench.__main__ import main
from accelbench.fleet.changes import compare_fleets, median_interval
from accelbench.fleet.observations import FleetData
from tests.accelbench.fleet.test_fleet import document, write_answer

Captured = pytest.CaptureFixture[str]


def write_twice(
    folder: Path, nodes: int = 30, change: float = 0.0, changed: Sequence[int] = (), rename: bool = False
) -> tuple[Path, Path]:
    """Write a fleet before and after: all nodes change by `change`, those in `changed` by −10 % more."""
    rng = np.random.default_rng(1)
    own = rng.lognormal(sigma=0.05, size=nodes)  # constant differences between nodes are no change
    for name, speed in (("before", 1.0), ("after", 1 + change)):
        for number in range(nodes):
            slow = 0.9 if name == "after" and number in changed else 1.0
            rates = 100 * own[number] * speed * slow * rng.lognormal(sigma=0.005, size=4)
            node = f"{name}-{number}" if rename else f"n{number}"
            attributes = {"cuda.driver": "new" if name == "after" else "old", "rack": str(number in changed)}
            write_answer(folder / name, node, rates.tolist(), id=f"{name}-{number}", attributes=attributes)
    return folder / "before", folder / "after"


def test_a_group_and_the_nodes_that_changed_more_are_found(tmp_path: Path, capsys: Captured) -> None:
    before, after = write_twice(tmp_path, change=-0.03, changed=[4, 9])
    found = document(capsys, before, "--", after)
    assert (found["nodes"], found["odd_nodes"]) == (30, 2)
    assert {row["name"] for row in found["rows"]} == {"n4", "n9"}
    assert [row["difference"] for row in found["rows"]] == pytest.approx([-0.1] * 4, abs=0.02)
    assert {change["metric"] for change in found["changes"]} == {"copy (B/s)", "launch (s)"}
    for change in found["changes"]:
        assert change["change"] == pytest.approx(-0.03, abs=0.005)
        assert change["low"] <= change["change"] <= change["high"] < -0.02
    assert [each["attribute"] for each in found["shared"]] == ["rack=True"]


@pytest.mark.parametrize(
    ("change", "rule", "status"),
    [(-0.05, "slower:3%", 3), (-0.05, "slower:8%", 0), (0.05, "slower:1%", 0), (0.0, "odd", 0), (0.0, "slower:0%", 0)],
)
def test_the_exit_status_follows_the_rule(
    change: float, rule: str, status: int, tmp_path: Path, capsys: Captured
) -> None:
    before, after = write_twice(tmp_path, change=change)
    words = ["fleet", str(before), "--", str(after), "--fail-on", rule, "--format", "csv"]
    assert main(words) == status
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 60


def test_an_odd_change_fails_the_rule_odd(tmp_path: Path) -> None:
    before, after = write_twice(tmp_path, changed=[4])
    assert main(["fleet", str(before), "--", str(after), "--fail-on", "odd"]) == 3


def test_renamed_nodes_and_other_rules_are_errors(tmp_path: Path, capsys: Captured) -> None:
    before, after = write_twice(tmp_path, nodes=6, rename=True)
    assert main(["fleet", str(before), "--", str(after)]) == 2
    assert "no node" in capsys.readouterr().err
    assert main(["fleet", str(before), "--fail-on", "slower:3%"]) == 2
    assert main(["fleet", str(before), "--", str(after), "--fail-on", "faster:3%"]) == 2
    assert main(["fleet", str(before), "--"]) == 2


def test_nodes_of_one_measurement_are_counted_and_not_compared(tmp_path: Path, capsys: Captured) -> None:
    before, after = write_twice(tmp_path, nodes=8)
    (after / "n0.json").unlink()
    write_answer(after, "added", [100.0, 101.0])
    found = document(capsys, before, "--", after)
    assert found["nodes"] == 7
    assert sum("measured before only" in note or "measured after only" in note for note in found["notes"]) == 2


def test_few_nodes_have_no_interval(tmp_path: Path, capsys: Captured) -> None:
    before, after = write_twice(tmp_path, nodes=5, change=-0.5)
    found = document(capsys, before, "--", after, "--fail-on", "slower:1%")
    assert {(change["low"], change["high"]) for change in found["changes"]} == {(None, None)}


@pytest.mark.parametrize("count", [6, 9, 40])
def test_the_interval_covers_the_median_as_often_as_it_says(count: int) -> None:
    rng = np.random.default_rng(count)
    draws = np.sort(rng.standard_normal((1000, count)), axis=1)
    intervals = [median_interval(draw, 0.95) for draw in draws]
    covered = sum(interval is not None and interval[0] <= 0 <= interval[1] for interval in intervals)
    assert covered >= 935


def test_a_time_that_shrinks_is_faster() -> None:
    sides = []
    for seconds in (2.0, 1.0):
        data = FleetData()
        for number in range(6):
            data.add_values("m", f"n{number}", "x", [seconds], is_time=True)
        sides.append(data)
    (group,) = compare_fleets(sides[0], sides[1]).groups
    assert group.change == pytest.approx(1.0)


def test_the_order_of_files_changes_nothing(tmp_path: Path, capsys: Captured) -> None:
    before, after = write_twice(tmp_path, nodes=12, changed=[3])
    first: dict[str, Any] = document(capsys, before, "--", after)
    paths = [str(path) for folder in (before, after) for path in sorted(folder.iterdir())]
    assert main(["fleet", *paths[11::-1], "--", *paths[:11:-1], "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == first
