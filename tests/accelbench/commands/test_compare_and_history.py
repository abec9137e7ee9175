"""Tests of `compare` with several runs per side, and of `history`, with real runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import Run

RUN = ("run", "behave", "--no-ceilings", "--max-seconds", "0.3", "--out")


@pytest.fixture
def six_runs(accelbench: Run) -> None:
    for number in (1, 2, 3):
        assert accelbench(*RUN, f"runs/before-{number}").returncode == 0
        assert accelbench(*RUN, f"after/{number}").returncode == 0


@pytest.mark.slow
@pytest.mark.usefixtures("six_runs")
def test_sides_are_runs_folders_and_bundles_and_history_lists_them(accelbench: Run, tmp_path: Path) -> None:
    before = [f"runs/before-{number}" for number in (1, 2, 3)]
    assert accelbench("pack", *before, "--out", "before.tar.xz").returncode == 0
    for words in (
        (*before, "--", "after"),
        ("runs", "after"),
        ("before.tar.xz", "--", "after/1", "after/2", "after/3"),
    ):
        process = accelbench("compare", *words, "--include-noisy", "--equivalence", "5")
        assert process.returncode == 0, process.stdout + process.stderr
        assert "behave cpu us=200: interval from 3 and 3 runs" in process.stdout
        assert process.stdout.endswith("(same: within ±5.0 %)\n")

    shutil.copytree(tmp_path / "after" / "1", tmp_path / "runs" / "cut")
    with (tmp_path / "runs" / "cut" / "records.jsonl").open("a", encoding="utf-8") as file:
        file.write("{")
    listed = accelbench("history", "behave")
    assert listed.returncode == 0
    assert "behave cpu us=200" in listed.stdout
    assert "runs/cut/records.jsonl line 2" in listed.stdout
    both = accelbench("history", "runs", "after")
    assert "behave cpu us=200" in both.stdout
    refused = accelbench("history", "--machine", "Cray-1")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "'Cray-1'" in refused.stderr
    unmeasured = accelbench("history", "matmul")
    assert unmeasured.returncode == 2
    assert "matmul: " in unmeasured.stderr
    assert "behave" in unmeasured.stderr


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ([], "two sides"),
        (["a"], "two sides"),
        (["a", "--"], "two sides"),
        (["a", "b", "c"], "A1 A2 -- B1 B2"),
        (["a", "--", "b", "--", "c"], "only once"),
        (["machine:Cray-1", "--", "b"], "'Cray-1'"),
    ],
)
def test_invalid_sides_are_a_usage_error(in_process: Run, words: list[str], key: str) -> None:
    process = in_process("compare", *words)
    assert process.returncode == 2
    assert key in process.stderr
    assert process.stderr.count("\n") == 1


def test_history_without_runs_is_a_usage_error(in_process: Run) -> None:
    process = in_process("history")
    assert process.returncode == 2
    assert "accelbench run" in process.stderr
    assert process.stderr.count("\n") == 1
