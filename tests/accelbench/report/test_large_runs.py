"""Report of a large run: run time is linear in the number of points, and the size of the page is limited."""

from __future__ import annotations

import gc
import io
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.execution.store import RunStore
from accelbench.output.console import PlainConsole
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import Work
from accelbench.report import stored_run as whole
from accelbench.report import table, write_report
from accelbench.report.rows import each_at_most
from accelbench.report.section import Run
from accelbench.report.sections import benchmarks
from accelbench.report.terminal import print_run
from accelbench.session import exit_status
from tests.conftest import ROOT
from tests.fixtures.report_pages import page_of, printed
from tests.fixtures.report_records import record, timing, unmeasured
from tests.fixtures.report_runs import make_run

FEW, MANY = 25, 100
OUR_OWN = tuple(str(ROOT / package) for package in ("accelbench", "profiling"))
"""Path prefixes of the project's own modules (a virtual environment may be in the repository, too)."""


def points(count: int) -> list[Record]:
    """Return points of one benchmark that differ in an axis; one in ten is noisy, and the first is a ceiling."""
    return [
        record(
            "matmul",
            params={"impl": "numba", "n": number},
            figure="flops",
            ceiling=number == 1,
            work=Work(flops=1e9, bytes=1e6),
            timing=timing(1e-3, count=25, seed=number % 7),
            noise=["steal: 9%"] if number % 10 == 0 else [],
        )
        for number in range(1, count + 1)
    ]


def calls_of_a_report(store: RunStore) -> Counter[str]:
    """Return the number of calls of each of the project's functions for the terminal, the tables and the page."""
    counts: Counter[str] = Counter()

    def count(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(OUR_OWN):
            counts[frame.f_code.co_qualname] += 1

    sys.setprofile(count)
    try:
        run = Run.of(store)
        print_run(run, PlainConsole(file=(store.path / "terminal").open("w"), width=100))
        write_report(store, run)
    finally:
        sys.setprofile(None)
    return counts


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Counter[str]]:
    folder = tmp_path_factory.mktemp("runs")
    return {count: calls_of_a_report(make_run(folder / str(count), points(count))) for count in (FEW, MANY)}


@pytest.mark.slow
def test_calls_grow_at_most_linearly_with_the_points(calls: dict[int, Counter[str]]) -> None:
    growth = MANY / FEW
    worse = {
        name: (calls[FEW][name], count)
        for name, count in calls[MANY].items()
        if count > 1.1 * growth * calls[FEW][name] + growth
    }
    assert not worse


@pytest.mark.slow
def test_time_courses_and_ceilings_are_computed_once(calls: dict[int, Counter[str]]) -> None:
    assert calls[MANY]["course_of"] == MANY
    assert calls[MANY]["ceilings"] == 1


def test_a_large_page_has_the_first_points_of_each_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "ROWS_IN_PAGE", 20)
    monkeypatch.setattr(benchmarks, "SAMPLES_DRAWN", 5)
    page = page_of(tmp_path, [*points(50), record("stream")])
    table = page[page.index('id="benchmark-1"') : page.index('id="benchmark-2"')]
    assert table.count('<th scope="row">') == 19
    assert "31 more points" in table
    assert "The 5 points" in table
    assert "more points" not in page[page.index('id="benchmark-2"') : page.index('id="flags"')]
    assert "51 of 51 points measured" in page


def test_a_large_table_in_the_terminal_has_the_number_of_omitted_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmarks, "ROWS_IN_TERMINAL", 20)
    out = printed(make_run(tmp_path / "run", points(50)))
    assert "n=20 " in out
    assert "n=21 " not in out
    assert "30 more points" in out


@pytest.mark.slow
def test_many_failed_points_are_counted_and_the_first_shown(tmp_path: Path) -> None:
    failed = [unmeasured("fma", "failed", "it crashed", params={"n": number}) for number in range(520)]
    store = make_run(tmp_path / "run", failed)
    assert "420 more" in printed(store)
    assert "20 more points" in page_of(tmp_path / "page", failed)


@pytest.fixture
def few_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "RECORDS_HELD", 10)
    monkeypatch.setattr(table, "PIECE", 7)


@pytest.mark.usefixtures("few_held")
def test_all_points_of_a_very_large_run_are_counted_and_in_the_tables(tmp_path: Path) -> None:
    failed = [unmeasured("fma", "failed", "it crashed", params={"n": number}) for number in range(12)]
    store = make_run(tmp_path / "run", [*points(40), *failed])
    out = printed(store)
    assert "40 of 52 points" in out
    assert "4 of them noisy, 12 failed" in out
    assert "other 32" in out
    write_report(store)
    page = (store.path / "report.html").read_text(encoding="utf-8")
    assert "other 32" in page
    assert "12 points failed" in page
    for found in (pd.read_csv(store.path / "records.csv"), pd.read_parquet(store.path / "records.parquet")):
        assert found["status"].tolist() == ["measured"] * 40 + ["failed"] * 12
        assert found["param.n"].tolist() == [*range(1, 41), *range(12)]
        assert found["ceiling"].nunique() == 1
    assert Run.of(store).lost == []


@pytest.mark.usefixtures("few_held")
def test_a_missing_record_among_omitted_points_fails_the_run(tmp_path: Path) -> None:
    planned = [unmeasured("fma", "skipped", "no device", params={"n": number}) for number in range(30)]
    store = make_run(tmp_path / "run", planned)
    lines = store.records_path.read_text(encoding="utf-8").splitlines(keepends=True)
    store.records_path.write_text("".join(lines[:-2]), encoding="utf-8")
    run = Run.of(store)
    assert run.lost == [str(record.point) for record in planned[-2:]]
    assert exit_status(run, PlainConsole(file=io.StringIO())) == 1


@pytest.mark.usefixtures("few_held")
def test_a_report_of_a_very_large_run_keeps_few_records_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_run(tmp_path / "run", points(80))
    alive = []
    line = table._line

    def counted(*arguments: Any) -> dict[str, Any]:
        alive.append(sum(type(each) is Record for each in gc.get_objects()))
        return line(*arguments)

    monkeypatch.setattr(table, "_line", counted)
    # Frozen objects are not listed: scanning those that earlier tests have left takes seconds.
    gc.collect()
    gc.freeze()
    try:
        write_report(store)
    finally:
        gc.unfreeze()
    assert len(alive) == 80
    assert 0 < max(alive) < 20


@given(st.lists(st.integers(0, 100), min_size=1, max_size=20), st.integers(1, 500))
def test_small_groups_are_complete_and_the_total_is_limited(sizes: list[int], most: int) -> None:
    share = each_at_most(sizes, most)
    shown = sum(min(size, share) for size in sizes)
    assert shown <= max(most, sum(size > 0 for size in sizes))
    assert share >= max(sizes) or sum(min(size, share + 1) for size in sizes) > most
