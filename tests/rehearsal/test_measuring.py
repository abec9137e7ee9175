"""The command line on a card that is not there: plan, workers, compilers, launches, telemetry and report are real."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import records
from tests.rehearsal.conftest import SMALL, Rehearsed
from tests.rehearsal.stand_ins.sitecustomize import UNCHECKED

NQUEENS = ("nqueens", "--device", "gpu", "--no-ceilings", "--param", "queens=8", "--param", "impl=tuned")
TIMED = 20
"""Executions that NVBench's stand-in asks for, isolated and batched."""


def test_a_run_goes_from_the_plan_to_the_report(rehearse: Rehearsed, launches: Path, tmp_path: Path) -> None:
    process = rehearse(
        *("accelbench", "run", "--suite", SMALL, "--device", "gpu", "--no-ceilings", "--out", tmp_path / "run")
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert "5 of 5 points measured and verified" in process.stdout
    measured = {(record["benchmark"], record["params"].get("impl")): record for record in records(tmp_path / "run")}
    assert {record["verification"]["method"] for record in measured.values()} == {UNCHECKED}

    ours = measured["matmul", "numba"]
    assert ours["timing"]["timer"] == "nvbench"
    assert ours["timing"]["batch"] == pytest.approx(0.98e-3)
    assert ours["peak"]["value"] == 66.9e12
    assert ours["telemetry"]["gauges"]["gpu.power"]["median"] == 400
    assert ours["telemetry"]["counters"]["gpu.energy_j"] > 0
    assert any("power limit" in flag for flag in ours["noise"])
    assert measured["launch", "cupy"]["timing"]["timer"] == "host"

    launched = Counter(line.split()[1] for line in launches.read_text().splitlines())
    for kernel in ("multiply", "nqueens", "empty"):
        assert sum(count for name, count in launched.items() if kernel in name) > TIMED, launched
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000


def test_an_answer_that_no_kernel_computed_is_a_failure(rehearse: Rehearsed, tmp_path: Path) -> None:
    process = rehearse("accelbench", "run", *NQUEENS, "--out", tmp_path / "run", REHEARSAL_ANSWERS="checked")
    assert process.returncode == 1
    (record,) = records(tmp_path / "run")
    assert record["status"] == "failed"
    assert record["reason"].startswith("wrong answer: ")
