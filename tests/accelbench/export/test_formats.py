"""`--format` of the commands that show stored runs: standard output contains only the document."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from accelbench.__main__ import main
from accelbench.doctor import document_of_checks
from accelbench.doctor.check import Check
from accelbench.export.document import ResultDocument
from accelbench.reproduce.paper import load_paper
from tests.fixtures.compare_runs import Runs, failed, measured, steady
from tests.fixtures.report_node import gpu_records
from tests.fixtures.report_records import HOSTILE, record, unmeasured
from tests.fixtures.report_runs import environment, make_run

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path / "stored")


@pytest.fixture
def run(tmp_path: Path) -> str:
    noisy = record("nqueens", noise=["other work took 90 % of a CPU"])
    failure = unmeasured("uts", "failed", f"the worker was killed {HOSTILE}")
    make_run(tmp_path / "run", [noisy, failure])
    return str(tmp_path / "run")


def test_a_report_in_json_has_each_result_with_its_flags(capsys: Captured, run: str) -> None:
    assert main(["report", run, "--format", "json"]) == 0
    captured = capsys.readouterr()
    assert "report.html" in captured.err
    found = json.loads(captured.out)
    measured_row, failed_row = found["rows"]
    assert found["command"] == "report"
    assert "1 point failed" in found["believe"]
    assert measured_row["low"] < measured_row["rate"] < measured_row["high"]
    assert (measured_row["disturbed"], "noisy" in measured_row["flags"]) == (True, True)
    assert failed_row["outcome"] == "failed"
    assert "killed" in failed_row["reason"]
    assert "\x1b" not in captured.out
    assert measured_row["normal"] is None


def test_the_comparison_with_references_is_in_the_document(capsys: Captured, tmp_path: Path) -> None:
    make_run(tmp_path / "gpu", gpu_records())
    assert main(["report", str(tmp_path / "gpu"), "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    (product,) = (row for row in rows if row["name"] == "matmul gpu impl=vendor dtype=bfloat16 n=8192")
    assert "TFLOP/s" in product["normal"]


def test_the_report_of_several_runs_is_one_document(capsys: Captured, run: str, tmp_path: Path) -> None:
    make_run(tmp_path / "other", [record("nqueens")], run_id="other")
    assert main(["report", run, str(tmp_path / "other"), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["run"] for each in found["runs"]] == list(dict.fromkeys(row["run"] for row in found["rows"]))


def test_quiet_prints_only_the_path_in_any_format(capsys: Captured, run: str) -> None:
    assert main(["report", run, "--quiet", "--format", "json"]) == 0
    assert capsys.readouterr().out == f"report {run}/report.html\n"


def test_a_regression_is_a_junit_failure(capsys: Captured, runs: Runs) -> None:
    a = [runs.stored([steady(median), measured([1.0] * 30, "stream")]) for median in (1.0, 1.004, 0.996)]
    b = [runs.stored([steady(median), failed("out of memory", "stream")]) for median in (1.3, 1.304, 1.296)]
    words = [*(str(store.path) for store in a), "--", *(str(store.path) for store in b)]
    assert main(["compare", *words, "--fail-on", "slower:5%", "--format", "junit"]) == 3
    (suite,) = ElementTree.fromstring(capsys.readouterr().out)
    messages = [element.attrib["message"] for element in suite.findall("testcase/failure")]
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("2", "2")
    assert "slower" in messages[0]
    assert "out of memory" in messages[1]


def test_a_comparison_in_json_has_the_ratio_and_its_interval(capsys: Captured, runs: Runs) -> None:
    a = [runs.stored([steady(median)]) for median in (1.0, 1.004, 0.996)]
    b = [runs.stored([steady(median)]) for median in (0.8, 0.804, 0.796)]
    words = [*(str(store.path) for store in a), "--", *(str(store.path) for store in b)]
    assert main(["compare", *words, "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["verdict"], row["outcome"]) == ("faster", "passed")
    assert row["speed"] == pytest.approx(1.25, rel=0.01)
    assert row["low"] < row["speed"] < row["high"]


def test_a_history_in_json_has_a_row_for_each_point(capsys: Captured, runs: Runs) -> None:
    for median in (1.0, 1.01, 0.99, 1.0, 1.005):
        runs.stored([steady(median)])
    folder = str(runs.stored([steady(1.0)]).path.parent)
    assert main(["history", folder, "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["runs"], row["changes"]) == (6, [])
    assert 0 < row["spread"] < 0.05


def test_claims_in_markdown_have_a_line_each(capsys: Captured, run: str) -> None:
    assert main(["reproduce", "carneiro2018", run, "--format", "markdown"]) == 0
    captured = capsys.readouterr()
    assert "page runs/reproduce-carneiro2018.html" in captured.err
    lines = [line for line in captured.out.splitlines() if line.startswith("| C")]
    assert len(lines) == len(load_paper("carneiro2018").claim)
    assert all("| skipped |" in line for line in lines)


def test_claims_in_json_require_runs(capsys: Captured) -> None:
    assert main(["reproduce", "kimm2021", "--format", "json"]) == 2
    assert "--format json" in capsys.readouterr().err


def test_a_missing_check_of_doctor_is_failed() -> None:
    document = document_of_checks(
        environment(),
        [Check("py-spy", "missing", "not installed", "install it"), Check("governor", "ok", "performance")],
    )
    assert isinstance(document, ResultDocument)
    assert [row.outcome for row in document.rows] == ["failed", "passed"]
    assert "AMD EPYC 9454" in document.facts["machine"]["CPU"][0]
    assert json.loads(document.write("json"))["rows"][0]["advice"] == "install it"


def test_a_dry_run_in_json_has_every_point(capsys: Captured) -> None:
    words = ["run", "stream", "--device", "cpu", "--no-ceilings", "--rounds", "2", "--dry-run", "--format", "json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["dry_run"] is True
    assert found["rows"]
    assert all((row["rounds"], row["outcome"]) == (2, "skipped") for row in found["rows"])


def test_a_dry_run_lists_skipped_training_workloads_without_their_time(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["run", "norm", "cnn-mnist", "--backend", "torch", "--device", "cpu", "--no-ceilings", "--dry-run"]
    monkeypatch.setattr("accelbench.execution.plan.is_installed", lambda name: name == "torch")
    assert main(words) == 0
    assert "1 new training" in capsys.readouterr().out
    monkeypatch.setattr("accelbench.execution.plan.is_installed", lambda name: False)
    assert main(words) == 0
    *points, reason, total = capsys.readouterr().out.splitlines()
    assert [point.split()[0] for point in points if point.endswith("skipped")] == ["cnn-mnist"]
    assert "accelbench[torch]" in reason
    assert "skipped" in total
    assert "training" not in total
    assert main([*words, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert ["accelbench[torch]" in row["reason"] for row in rows] == [row["name"][0] == "c" for row in rows]


def test_an_unknown_format_is_reported_with_a_suggestion(capsys: Captured, run: str) -> None:
    assert main(["report", run, "--format", "jsn"]) == 2
    assert "'json'" in capsys.readouterr().err
