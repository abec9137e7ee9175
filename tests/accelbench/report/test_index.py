"""List of stored runs: search, outcome, deletion, and the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelbench.__main__ import main
from accelbench.execution.store import Label
from tests.fixtures.report_pages import Tags
from tests.fixtures.report_records import HOSTILE, record, unmeasured
from tests.fixtures.report_runs import make_run


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "250")
    folder = tmp_path / "runs"
    noisy = record("nqueens", noise=["other work took 90 % of a CPU"])
    failed = unmeasured("nqueens", "failed", "the worker was killed")
    make_run(
        folder / "first", [record("nqueens")], run_id="first", label=Label(name="before the driver", tags=("node7",))
    )
    make_run(folder / "second", [noisy], run_id="second", suite="quick", label=Label(note="after the driver"))
    make_run(folder / "third", [failed], run_id="third", label=Label(name=HOSTILE))
    return folder


def test_all_runs_are_listed_with_name_note_and_outcome(capsys: pytest.CaptureFixture[str], runs: Path) -> None:
    assert main(["runs"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for word in (
        "before the driver",
        "#node7",
        "after the driver",
        "of them noisy",
        "1 failed",
        "page runs/index.html",
    ):
        assert word in shown
    page = (runs / "index.html").read_text(encoding="utf-8")
    lights = [given["class"] for tag, given in Tags(page).tags if tag == "span" and "light" in str(given.get("class"))]
    assert sorted(map(str, lights)) == ["light bad", "light disturbed", "light good"]
    assert "<script>" not in page
    links = [given["href"] for tag, given in Tags(page).tags if tag == "a"]
    assert "first/report.html" in links


@pytest.mark.parametrize(
    ("words", "found"), [(["node7"], ["first"]), (["quick", "driver"], ["second"]), (["H200"], None)]
)
def test_runs_are_found_by_label_suite_and_machine(
    capsys: pytest.CaptureFixture[str], runs: Path, words: list[str], found: list[str] | None
) -> None:
    assert main(["runs", *words]) == 0
    shown = capsys.readouterr().out
    found_names = [name for name in ("first", "second", "third") if name in shown.split()]
    assert found_names == (found or ["first", "second", "third"])
    links = Tags((runs / "index.html").read_text(encoding="utf-8")).tags
    assert sum(tag == "a" for tag, _ in links) == 3, "the page has all runs"


def test_runs_are_deleted_on_request_only(capsys: pytest.CaptureFixture[str], runs: Path) -> None:
    for words in ([], [""], ["", " "]):
        assert main(["runs", *words, "--delete", "--yes"]) == 2
    assert len(list(runs.glob("*/"))) == 3
    assert main(["runs", "third", "--delete", "--yes"]) == 0
    assert "deleted 1 run" in capsys.readouterr().out
    assert sorted(path.name for path in runs.glob("*/")) == ["first", "second"]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_list_is_not_truncated(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, runs: Path, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    long = "20260314-092653-wang2019-frameworks-small-a1b2"
    make_run(runs / long, [record("nqueens", noise=["busy"])], run_id=long, label=Label(note="after all the others"))
    assert main(["runs", "wang2019"]) == 0
    words = "1 of 1 points measured and verified, all of them noisy, in 5:12 min after all the others"
    assert set(words.split()) <= set(capsys.readouterr().out.split())


def test_unknown_words_exit_with_2_and_a_corrupt_run_is_reported(
    capsys: pytest.CaptureFixture[str], runs: Path
) -> None:
    assert main(["runs", "nothing"]) == 2
    (runs / "second" / "run.json").write_text("{")
    assert main(["runs"]) == 0
    assert "second" in capsys.readouterr().err
