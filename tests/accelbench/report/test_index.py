"""List of stored runs: search, outcome, deletion, and the page."""

from __future__ import annotations

import re
from base64 import b64encode
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from accelbench.__main__ import main
from accelbench.execution.store import Label
from accelbench.report import run_entries
from accelbench.report.index import machine_trends
from accelbench.report.run_entries import CACHE, find_entries
from accelbench.report.stored_run import Run
from tests.fixtures.report_pages import Tags
from tests.fixtures.report_records import HOSTILE, STARTED, record, timing, unmeasured
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
    assert HOSTILE not in page
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    hashes = [b64encode(sha256(script.encode()).digest()).decode() for script in scripts]
    assert re.findall(r"script-src 'sha256-([^']+)'", page) == hashes, "the policy allows the page's own script only"
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


def links_of(runs: Path) -> list[str]:
    return re.findall(r'href="([^"]+)/report.html"', (runs / "index.html").read_text(encoding="utf-8"))


def test_the_page_is_rewritten_when_a_run_is_reported_or_deleted(runs: Path) -> None:
    assert main(["report", "runs/first", "--quiet"]) == 0
    assert sorted(links_of(runs)) == ["first", "second", "third"]
    make_run(runs / "fourth", [record("nqueens")], run_id="fourth")
    assert main(["report", "runs/fourth", "--quiet"]) == 0
    assert "fourth" in links_of(runs)
    assert main(["runs", "fourth", "--delete", "--yes"]) == 0
    assert "fourth" not in links_of(runs)


def test_a_run_elsewhere_writes_no_list(tmp_path: Path) -> None:
    make_run(tmp_path / "other" / "run", [record("nqueens")])
    assert main(["report", "other/run", "--quiet"]) == 0
    assert not (tmp_path / "other" / "index.html").exists()


def test_only_new_and_changed_runs_are_read(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []

    class Reader(Run):
        @classmethod
        def of(cls, store: run_entries.RunStore) -> Run:
            reads.append(store.path.name)
            return Run.of(store)

    monkeypatch.setattr(run_entries, "Run", Reader)
    before = find_entries(runs).entries
    assert sorted(reads) == ["first", "second", "third"]
    reads.clear()
    assert find_entries(runs).entries == before
    assert reads == []
    with (runs / "second" / "records.jsonl").open("a") as records:
        records.write((runs / "first" / "records.jsonl").read_text())
    find_entries(runs)
    assert reads == ["second"]
    (runs / CACHE).write_text("{")
    reads.clear()
    assert len(find_entries(runs).entries) == 3
    assert len(reads) == 3


def test_an_update_reads_few_runs_and_counts_the_others(runs: Path) -> None:
    found = find_entries(runs, most_read=2)
    assert (len(found.entries), found.unread) == (2, 1)
    assert find_entries(runs, most_read=2).unread == 0


def test_results_benchmarks_and_the_trend_of_the_machine_are_listed(
    capsys: pytest.CaptureFixture[str], runs: Path
) -> None:
    for number, seconds in enumerate((1e-3, 2e-3)):
        created = STARTED + timedelta(days=1 + number)
        records = [record("nqueens", timing=timing(seconds, 1e-6)), record("launch")]
        make_run(runs / f"n{number}", records, run_id=f"n{number}", created=created, suite=None, device="cpu")
    entries = find_entries(runs).entries
    assert entries[0].suite == "nqueens, launch"
    assert [lead.benchmark for lead in entries[0].leads] == ["nqueens", "launch"]
    (trend,) = [each for each in machine_trends(entries) if each.device == "cpu"]
    assert (trend.runs, len(trend.rates)) == (2, 2)
    assert trend.rates[1].value == pytest.approx(2 * trend.rates[0].value, rel=0.01)
    assert trend.drawing.count(",") == 2
    assert main(["runs"]) == 0
    assert trend.blocks in capsys.readouterr().out
    assert trend.drawing in (runs / "index.html").read_text(encoding="utf-8")


def test_the_title_agrees_with_the_number_of_runs(runs: Path) -> None:
    for name in ("first", "second"):
        assert main(["runs", name, "--delete", "--yes"]) == 0
    page = (runs / "index.html").read_text(encoding="utf-8")
    assert "<title>1 run ·" in page
    assert "<h1>1 run</h1>" in page


def test_the_report_is_written_if_the_list_cannot_be(capsys: pytest.CaptureFixture[str], runs: Path) -> None:
    (runs / "index.html").mkdir()
    assert main(["report", "runs/first", "--quiet"]) == 0
    assert "index.html" in capsys.readouterr().err
    assert (runs / "first" / "report.html").exists()


def test_another_corrupt_run_does_not_change_the_status_of_a_report(runs: Path) -> None:
    (runs / "second" / "records.jsonl").write_text("{\n")
    assert main(["report", "runs/first", "--quiet"]) == 0
    assert "second" in " ".join(find_entries(runs).damaged + links_of(runs))
