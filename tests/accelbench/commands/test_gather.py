"""The runs of a job, gathered into one table."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from accelbench.__main__ import main
from tests.fixtures.report_records import training, unmeasured
from tests.fixtures.report_runs import make_run


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Create the output folder of a job with two finished runs."""
    for node in ("n1", "n2"):
        make_run(tmp_path / "slurm-1" / f"quick-{node}", [training("cpu", "float32", 0.01)], device="cpu")
    return tmp_path / "slurm-1"


def test_the_records_of_all_runs_are_in_one_table(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gather", str(job)]) == 0
    *runs, table = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in runs] == ["quick-n1", "quick-n2"]
    assert table == f"records {job / 'records.csv'}"
    with (job / "records.csv").open(encoding="utf-8") as file:
        assert [(line["run"], line["status"]) for line in csv.DictReader(file)] == [
            ("quick-n1", "measured"),
            ("quick-n2", "measured"),
        ]


def test_a_failed_point_an_interrupted_run_and_an_unreadable_run_are_status_1(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gather", str(job)]) == 0
    failed = unmeasured("matmul", "failed", "wrong answer")
    for name, records, status in (("failed", [failed], "finished"), ("interrupted", [], "interrupted")):
        make_run(job.parent / name / "quick-n3", records, device="cpu", status=status)
        assert main(["gather", str(job.parent / name)]) == 1
    (job / "quick-n1" / "run.json").write_text("{")
    capsys.readouterr()
    assert main(["gather", str(job)]) == 1
    printed = capsys.readouterr()
    assert "quick-n1" in printed.err
    assert "quick-n2" in printed.out


def test_a_folder_without_runs_is_one_line_and_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        assert main(["gather", str(folder)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert str(folder) in line
