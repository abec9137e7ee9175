"""Tests of commands on finished runs and data sets."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelbench.profiling.records.point import Point
from tests.conftest import Run
from tests.fixtures.compare_runs import repetitions
from tests.fixtures.report_runs import make_run

RUN = ("run", "behave", "--no-ceilings", "--max-seconds", "1", "--out")


def test_a_regression_is_status_3_only_with_fail_on(in_process: Run, tmp_path: Path) -> None:
    for name, seconds in (("before", 1.0), ("after", 1.5)):
        rounds = repetitions([seconds, seconds * 1.01, seconds * 0.99, seconds])
        make_run(tmp_path / name, rounds, run_id=name)
    plain = in_process("compare", "before", "after")
    assert plain.returncode == 0
    assert "slower" in plain.stdout
    limited = in_process("compare", "before", "after", "--fail-on", "slower:5%")
    assert limited.returncode == 3
    assert "regression: " in limited.stdout
    assert in_process("compare", "before", "after", "--fail-on", "slower:99.9%").returncode == 0
    assert in_process("compare", "after", "before", "--fail-on", "slower:5%").returncode == 0


def test_without_a_run_the_latest_is_reported(in_process: Run, tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "mine", repetitions([1.0] * 3), run_id="20260314-092653-behave-a1b2")
    for words in ((), ("20260314-092653-behave-a1b2",)):
        done = in_process("report", *words)
        assert done.returncode == 0
        assert "mine/report.html" in done.stdout
        assert "accelbench resume" not in done.stdout


def test_the_report_of_an_interrupted_run_names_the_command_that_continues_it(in_process: Run, tmp_path: Path) -> None:
    first, *_ = repetitions([1.0] * 3)
    plan = [first.point, Point("matmul", "cpu", {"n": 3})]
    make_run(tmp_path / "run", [first], status="interrupted", plan=plan)
    assert "accelbench resume run" in in_process("report", "run").stdout


def test_an_invalid_rule_is_one_line_before_any_run_is_opened(in_process: Run) -> None:
    process = in_process("compare", "before", "after", "--fail-on", "slower:x%")
    assert process.returncode == 2
    assert all(part in process.stderr for part in ("--fail-on", "slower:x%", "slower:5%"))
    assert process.stderr.count("\n") == 1


@pytest.mark.slow
def test_latest_is_the_newest_run(accelbench: Run, tmp_path: Path) -> None:
    assert accelbench("run", "behave", "--no-ceilings", "--max-seconds", "0.5").returncode == 0
    (run,) = (tmp_path / "runs").glob("*/")
    for name in ("latest", run.name, str(run)):
        process = accelbench("report", name)
        assert process.returncode == 0, process.stderr
        assert f"{run.name}/report.html" in process.stdout


@pytest.mark.slow
def test_resume_on_another_machine_is_refused(accelbench: Run, tmp_path: Path) -> None:
    accelbench(*RUN, "out")
    stored = tmp_path / "out" / "run.json"
    text = stored.read_text(encoding="utf-8")
    model = text.split('"model": ')[1].split(",")[0]
    stored.write_text(text.replace(f'"model": {model}', '"model": "Another CPU"', 1), encoding="utf-8")
    process = accelbench("resume", "out")
    assert process.returncode == 2
    assert "another machine" in process.stderr


def test_data_list_and_a_wrong_file(accelbench: Run, tmp_path: Path) -> None:
    listed = accelbench("data", "list", ACCELBENCH_DATA=str(tmp_path / "cache"))
    assert listed.returncode == 0
    assert "mnist" in listed.stdout
    (tmp_path / "wrong.npz").write_bytes(b"not MNIST")
    refused = accelbench("data", "fetch", "mnist", "--from", "wrong.npz", ACCELBENCH_DATA=str(tmp_path / "cache"))
    assert refused.returncode == 2
    assert "SHA-256" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_peaks_are_printed_with_their_source(in_process: Run) -> None:
    process = in_process("peaks", "H200")
    assert "989.50 TFLOP/s  at 1830 MHz" in process.stdout
    assert "nvidia.com" in process.stdout
    assert "board" in in_process("peaks", "K80").stdout
    unknown = in_process("peaks", "abacus")
    assert (unknown.returncode, unknown.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize("width", [40, 100])
def test_the_sources_of_peaks_are_wrapped_with_an_indentation(
    in_process: Run, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = in_process("peaks", "A100 SXM 80 GB").stdout.splitlines()
    assert max(map(len, lines)) <= width
    assert [line for line in lines if line and not line.startswith("  ")] == ["A100 SXM 80 GB"]
    assert "nvidia-a100-datasheet" in "".join(line.strip() for line in lines)


def test_a_missing_folder_of_benchmarks_is_one_line(accelbench: Run) -> None:
    process = accelbench("list", ACCELBENCH_PATH="/nowhere")
    assert process.returncode == 2
    assert "ACCELBENCH_PATH" in process.stderr
    assert "/nowhere" in process.stderr
    assert process.stderr.count("\n") == 1
