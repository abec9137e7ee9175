"""Names of runs, folders and bundles that are not valid UTF-8 are printed with escapes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from accelbench.__main__ import main
from accelbench.execution.store import Label, RunStore
from tests.fixtures.report_pages import Tags
from tests.fixtures.report_records import record
from tests.fixtures.report_runs import make_run

ODD = os.fsdecode(b"b\xff")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    make_run(folder / "runs" / ODD, [record("matmul")], run_id="odd")
    make_run(folder / "runs" / "even", [record("matmul")], run_id="even")
    return folder


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))


@pytest.mark.parametrize(
    "words",
    [
        ["runs"],
        ["report", f"runs/{ODD}"],
        *(["report", f"runs/{ODD}", "--format", form] for form in ("json", "markdown", "junit")),
        ["report", f"runs/{ODD}", "runs/even", "--out", f"{ODD}.html"],
        ["export", f"runs/{ODD}", "--openmetrics"],
        ["export", f"runs/{ODD}", "--openmetrics", "--out", f"{ODD}.prom"],
        ["compare", f"runs/{ODD}", "runs/even"],
        ["compare", f"runs/{ODD}", "runs/even", "--format", "json"],
        ["history", "runs"],
        ["history", "runs", "--format", "json"],
        ["pack", f"runs/{ODD}", "--out", f"{ODD}.tar.xz"],
        ["report", f"{ODD}.tar.xz:{ODD}"],
        ["pack", f"runs/{ODD}", "--anonymous", "--out", f"anonymous{ODD}"],
    ],
    ids=" ".join,
)
def test_a_run_in_a_folder_that_is_not_utf_8_is_accepted(words: list[str]) -> None:
    assert main(words) in (0, 1)


def test_the_index_links_to_the_folder_by_its_bytes(folder: Path) -> None:
    assert main(["runs"]) == 0
    page = (folder / "runs" / "index.html").read_text(encoding="utf-8")
    assert "b%FF/report.html" in [given["href"] for tag, given in Tags(page).tags if tag == "a"]
    assert "b\\udcff" in page


def test_a_label_that_is_not_utf_8_is_stored(folder: Path) -> None:
    label = Label(name=ODD, note=ODD, tags=(ODD,))
    make_run(folder / "labelled", [], label=label)
    stored = RunStore.open(folder / "labelled").info().label
    assert stored == label == Label(name="b\\udcff", note="b\\udcff", tags=("b\\udcff",))
