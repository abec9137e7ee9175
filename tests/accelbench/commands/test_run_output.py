"""Tests of the output of `run` with `--quiet` and `--format`."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Run

RUN = ("run", "behave", "--device", "cpu", "--no-ceilings", "--max-seconds", "0.3")


@pytest.mark.slow
def test_quiet_prints_outcome_failures_and_report(accelbench: Run) -> None:
    process = accelbench(*RUN, "--quiet", "--out", "run")
    assert process.returncode == 0
    assert process.stdout.startswith("1 of 1 points")
    assert process.stdout.endswith("report run/report.html\n")
    assert len(process.stdout.splitlines()) == 2
    words = ("run", "misbehave", "--param", "how=wrong", "--device", "cpu", "--no-ceilings")
    failed = accelbench(*words, "--quiet", "--out", "wrong")
    assert failed.returncode == 1
    assert "failed misbehave cpu how=wrong" in failed.stderr


@pytest.mark.slow
def test_standard_output_contains_only_the_document(accelbench: Run) -> None:
    process = accelbench(*RUN, "--format", "json", "--out", "run")
    assert process.returncode == 0
    found = json.loads(process.stdout)
    (row,) = found["rows"]
    assert (found["command"], found["status"], row["outcome"]) == ("run", "finished", "passed")
    assert "report run/report.html" in process.stderr
    resumed = accelbench("resume", "run", "--format", "json")
    assert json.loads(resumed.stdout)["rows"] == found["rows"]
    assert accelbench("resume", "run", "--quiet").stdout.startswith("1 of 1 points")
