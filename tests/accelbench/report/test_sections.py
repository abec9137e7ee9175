"""Sections of the report in terminal and page, and their order."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelbench.profiling.records.record import Record
from accelbench.report import page as of_page
from accelbench.report import sections, terminal
from accelbench.report.section import InPage, Section
from tests.accelbench.report.test_strategies_report import training
from tests.fixtures.report_pages import page_of, printed
from tests.fixtures.report_records import HOSTILE, record
from tests.fixtures.report_runs import make_run

SLOWEST = Section(
    find=lambda run: max(run.records, key=lambda record: record.elapsed_s, default=None),
    page=InPage('<section id="slowest">{{ found.reason }} {{ found.point }}</section>', "slowest", "Slowest"),
    terminal=lambda record, console: console.print(f"slowest point: {record.point.benchmark}"),
)


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a section before all others."""
    monkeypatch.setattr(of_page.sections, "PAGE", (SLOWEST, *sections.PAGE))
    monkeypatch.setattr(terminal, "TERMINAL", (SLOWEST, *sections.TERMINAL))


def test_a_section_is_at_its_place_in_the_order(tmp_path: Path) -> None:
    records = [record("matmul", elapsed_s=9.0, reason=HOSTILE), record("stream", elapsed_s=2.0)]
    page = page_of(tmp_path, records)
    assert '<section id="slowest">&lt;script&gt;' in page
    assert '<a href="#slowest">Slowest</a>' in page
    assert page.index('id="slowest"') < page.index('id="glance"') < page.index('id="benchmarks"')
    lines = printed(make_run(tmp_path / "again", records))
    assert lines.index("slowest point: matmul") < lines.index("2 of 2 points")


def test_a_section_without_findings_is_omitted(tmp_path: Path) -> None:
    assert 'id="slowest"' not in page_of(tmp_path, [])
    assert "slowest point" not in printed(make_run(tmp_path / "again", []))


def distributed(strategy: str) -> list[Record]:
    return [training(0.1, name, strategy=strategy, processes=2, units=16) for name in ("tensorflow", "torch")]


@pytest.mark.parametrize("strategy", ["none", "one-device", "mirrored"])
def test_the_terminal_compares_the_same_strategies_as_the_page(tmp_path: Path, strategy: str) -> None:
    records = distributed(strategy)
    assert 'id="strategies"' in page_of(tmp_path, records)
    assert "bilstm cpu: by framework" in printed(make_run(tmp_path / "again", records))


def test_every_link_has_its_section(page: str) -> None:
    assert set(sections.PAGE) - {SLOWEST} == set(sections.PAGE_OF_STUDY)
    for part in (section.page for section in sections.PAGE):
        assert part
        if f'href="#{part.anchor}">{part.link}<' in page:
            assert f'id="{part.anchor}"' in page
