"""Reports as one page without links to other files."""

from __future__ import annotations

import re
from base64 import b64decode
from pathlib import Path

import pytest

from accelbench.report import embedded, write_report
from accelbench.report.embedded import embedded_page
from tests.fixtures.report_records import training
from tests.fixtures.report_runs import make_run

HREF = re.compile(r'href="([^"]*)"')


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """Write the report of a run with logs, and return its path."""
    store = make_run(tmp_path / "run", [training("cpu", "float32", 0.01)], device="cpu")
    (tmp_path / "run" / "logs").mkdir(exist_ok=True)
    (tmp_path / "run" / "logs" / "001.log").write_text("a line")
    return write_report(store)


def test_each_file_is_a_download_with_its_content_and_a_folder_is_text(page: Path) -> None:
    assert 'href="./logs/"' in page.read_text(encoding="utf-8")
    text = embedded_page(page)
    assert [target for target in HREF.findall(text) if not re.match(r"#|https?:|data:", target)] == []
    found = dict(re.findall(r'<a download="([^"]*)" href="data:[^;"]*;base64,([^"]*)"', text))
    assert {*found} == {"records.csv", "records.parquet", "records.jsonl"}
    assert all(b64decode(content) == (page.parent / name).read_bytes() for name, content in found.items())
    assert re.search(r"</a>, logs</dd>", text)


def test_a_large_or_missing_file_is_text(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (page.parent / "records.parquet").unlink()
    monkeypatch.setattr(embedded, "LARGEST_BYTES", (page.parent / "records.csv").stat().st_size)
    (page.parent / "records.jsonl").write_bytes(b" " * (embedded.LARGEST_BYTES + 1))
    assert re.findall(r'<a download="([^"]*)"', embedded_page(page)) == ["records.csv"]


def test_files_outside_the_folder_are_not_embedded(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "run").mkdir()
    page = tmp_path / "run" / "report.html"
    page.write_text('<a href="./../secret">a</a><a href="./link">b</a>', encoding="utf-8")
    (page.parent / "link").symlink_to(tmp_path / "secret")
    assert embedded_page(page) == "ab"
