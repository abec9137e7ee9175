"""The report's sections: each is a file, found by its place, and says the same in the terminal and in the page."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from accelbench.report import sections as folder
from accelbench.report.section import sections
from profiling.records.record import Record
from tests.accelbench.report.test_strategies_report import training
from tests.fixtures.report_pages import page_of, printed
from tests.fixtures.report_records import HOSTILE, record
from tests.fixtures.report_runs import make_run

STRANGER = '''
"""The point that took the longest, all its phases together."""

from accelbench.report.section import InPage, InTerminal, Section


def slowest(run):
    return max(run.records, key=lambda record: record.elapsed_s, default=None)


def show(record, console):
    console.print(f"slowest point: {record.point.benchmark}")


section = Section(
    find=slowest,
    page=InPage(35, "slowest", "Slowest", template='<section id="slowest">Slowest: {{ found.point }}</section>'),
    terminal=InTerminal(45, show),
)
'''


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose files are sections too, as if they lay among the others."""
    added = tmp_path / "added"
    added.mkdir()
    monkeypatch.setattr(folder, "__path__", [*folder.__path__, str(added)])
    (added / "slowest_point.py").write_text(STRANGER)
    yield added
    sys.modules.pop(f"{folder.__name__}.slowest_point", None)


def test_a_section_is_added_by_adding_one_file(tmp_path: Path, stranger: Path) -> None:
    records = [record("matmul", elapsed_s=9.0), record("stream", elapsed_s=2.0)]
    page = page_of(tmp_path, records)
    assert '<section id="slowest">Slowest: ' in page
    assert '<a href="#slowest">Slowest</a>' in page
    assert page.index('id="glance"') < page.index('id="slowest"') < page.index('id="benchmarks"')
    lines = printed(make_run(tmp_path / "again", records))
    assert lines.index("slowest point: matmul") < lines.index("2 of 2 points measured")


def test_a_section_may_have_its_page_in_a_file_beside_it(tmp_path: Path, stranger: Path) -> None:
    inline = STRANGER[STRANGER.index(", template=") : STRANGER.index("),\n    terminal")]
    (stranger / "slowest_point.py").write_text(STRANGER.replace(inline, ""))
    (stranger / "slowest_point.html").write_text('<section id="slowest">{{ found.reason }}</section>')
    page = page_of(tmp_path, [record("matmul", reason=HOSTILE)])
    assert '<section id="slowest">&lt;script&gt;' in page


def test_what_finds_nothing_is_neither_in_the_page_nor_in_the_terminal(tmp_path: Path, stranger: Path) -> None:
    assert 'id="slowest"' not in page_of(tmp_path, [])
    assert "slowest point" not in printed(make_run(tmp_path / "again", []))


def distributed(strategy: str) -> list[Record]:
    return [training(0.1, name, strategy=strategy, processes=2, units=16) for name in ("tensorflow", "torch")]


@pytest.mark.parametrize("strategy", ["none", "one-device", "mirrored"])
def test_any_strategy_that_the_page_compares_is_compared_in_the_terminal(tmp_path: Path, strategy: str) -> None:
    records = distributed(strategy)
    assert 'id="strategies"' in page_of(tmp_path, records)
    assert "bilstm cpu: by framework" in printed(make_run(tmp_path / "again", records))


def test_every_section_is_shown_somewhere_and_leads_to_its_own_part(page: str) -> None:
    for name, section in sections().items():
        assert section.page or section.terminal, name
        if section.page and f'href="#{section.page.anchor}">{section.page.link}<' in page:
            assert f'id="{section.page.anchor}"' in page, name
