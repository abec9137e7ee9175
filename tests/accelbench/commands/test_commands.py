"""Commands on finished runs and data sets, as a user gives them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Run

RUN = ("run", "behave", "--no-ceilings", "--max-seconds", "1", "--out")


@pytest.fixture
def two_runs(accelbench: Run) -> None:
    in_rounds = ("--rounds", "3")  # a loaded machine leaves one process too few samples that tell anything
    assert accelbench(*RUN, "before", *in_rounds).returncode == 0
    assert accelbench(*RUN, "after", *in_rounds, TEST_SLOWDOWN="100").returncode == 0


@pytest.mark.slow
@pytest.mark.usefixtures("two_runs")
def test_a_regression_is_named_and_is_status_3_only_if_asked_for(accelbench: Run) -> None:
    anyway = "--even-if-disturbed"  # whatever else runs beside the tests
    plain = accelbench("compare", "before", "after", anyway)
    assert plain.returncode == 0
    assert "slower" in plain.stdout
    asked = accelbench("compare", "before", "after", anyway, "--fail-on", "slower:5%")
    assert asked.returncode == 3
    assert "regression: behave cpu us=200: " in asked.stdout
    assert accelbench("compare", "before", "after", anyway, "--fail-on", "slower:99.9%").returncode == 0
    assert accelbench("compare", "after", "before", anyway, "--fail-on", "slower:5%").returncode == 0


def test_a_rule_that_cannot_be_read_is_one_line_before_any_run_is_opened(accelbench: Run) -> None:
    process = accelbench("compare", "before", "after", "--fail-on", "slower:x%")
    assert process.returncode == 2
    assert process.stderr == "accelbench: --fail-on 'slower:x%' is not understood: write it as slower:5%\n"


@pytest.mark.slow
def test_latest_is_the_last_run_under_runs(accelbench: Run, tmp_path: Path) -> None:
    assert accelbench("run", "behave", "--no-ceilings", "--max-seconds", "0.5").returncode == 0
    (run,) = (tmp_path / "runs").iterdir()
    for name in ("latest", run.name, str(run)):
        process = accelbench("report", name)
        assert process.returncode == 0, process.stderr
        assert f"{run.name}/report.html" in process.stdout


@pytest.mark.slow
def test_a_resume_on_another_machine_is_refused(accelbench: Run, tmp_path: Path) -> None:
    accelbench(*RUN, "out")
    stored = tmp_path / "out" / "run.json"
    text = stored.read_text(encoding="utf-8")
    model = text.split('"model": ')[1].split(",")[0]
    stored.write_text(text.replace(f'"model": {model}', '"model": "Another CPU"', 1), encoding="utf-8")
    process = accelbench("resume", "out")
    assert process.returncode == 2
    assert "another machine" in process.stderr


def test_data_is_listed_and_a_wrong_file_is_refused(accelbench: Run, tmp_path: Path) -> None:
    listed = accelbench("data", "list", ACCELBENCH_DATA=str(tmp_path / "cache"))
    assert listed.returncode == 0
    assert "mnist" in listed.stdout
    (tmp_path / "wrong.npz").write_bytes(b"not MNIST")
    refused = accelbench("data", "fetch", "mnist", "--from", "wrong.npz", ACCELBENCH_DATA=str(tmp_path / "cache"))
    assert refused.returncode == 2
    assert "SHA-256" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_peaks_are_shown_with_their_source(accelbench: Run) -> None:
    process = accelbench("peaks", "H200")
    assert "989.50 TFLOP/s  at 1830 MHz" in process.stdout
    assert "nvidia.com" in process.stdout
    assert "the board of two GPUs" in accelbench("peaks", "K80").stdout
    unknown = accelbench("peaks", "abacus")
    assert (unknown.returncode, unknown.stderr.count("\n")) == (2, 1)


def test_a_folder_of_own_benchmarks_that_is_not_there_is_one_line(accelbench: Run) -> None:
    process = accelbench("list", ACCELBENCH_PATH="/nowhere")
    assert process.returncode == 2
    assert process.stderr == "accelbench: ACCELBENCH_PATH names /nowhere, which is not a folder\n"
