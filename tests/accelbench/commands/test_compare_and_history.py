"""`compare` with several runs a side and `history`, as a user types them, on runs of the real command."""

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
def test_runs_folders_and_packs_are_sides_and_history_is_told(accelbench: Run, tmp_path: Path) -> None:
    before = [f"runs/before-{number}" for number in (1, 2, 3)]
    assert accelbench("pack", *before, "--out", "before.tar.xz").returncode == 0
    for words in (
        (*before, "--", "after"),
        ("runs", "after"),
        ("before.tar.xz", "--", "after/1", "after/2", "after/3"),
    ):
        process = accelbench("compare", *words, "--even-if-disturbed", "--equivalence", "5")
        assert process.returncode == 0, process.stdout + process.stderr
        assert "behave cpu us=200: the interval is that of 3 and 3 runs" in process.stdout
        assert process.stdout.endswith("(same: within ±5.0 %)\n")

    shutil.copytree(tmp_path / "after" / "1", tmp_path / "runs" / "cut")
    with (tmp_path / "runs" / "cut" / "records.jsonl").open("a", encoding="utf-8") as file:
        file.write("{")
    told = accelbench("history", "behave")
    assert told.returncode == 0
    assert "behave cpu us=200" in told.stdout
    assert "runs/cut/records.jsonl line 2 is cut off" in told.stdout
    both = accelbench("history", "runs", "after")
    assert "behave cpu us=200" in both.stdout
    refused = accelbench("history", "--machine", "Cray-1")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "no run is of a machine called 'Cray-1'" in refused.stderr
    unmeasured = accelbench("history", "matmul")
    assert "matmul is no folder, and was measured in none of these runs: they have behave" in unmeasured.stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "a comparison needs two sides: name a run for A and one for B"),
        (["a"], "a comparison needs two sides"),
        (["a", "--"], "a comparison needs two sides"),
        (["a", "b", "c"], "3 runs: put -- between those of A and those of B, as in A1 A2 -- B1 B2"),
        (["a", "--", "b", "--", "c"], "there are two sides, and so one -- between them"),
        (["machine:Cray-1", "--", "b"], "no run under runs is of a machine called 'Cray-1'"),
    ],
)
def test_sides_that_cannot_be_told_apart_are_wrong_use(accelbench: Run, words: list[str], complaint: str) -> None:
    process = accelbench("compare", *words)
    assert process.returncode == 2
    assert complaint in process.stderr
    assert process.stderr.count("\n") == 1


def test_a_machine_without_runs_has_no_history(accelbench: Run) -> None:
    process = accelbench("history")
    assert process.returncode == 2
    assert process.stderr == "accelbench: there is no run under runs: 'accelbench run' makes one\n"
