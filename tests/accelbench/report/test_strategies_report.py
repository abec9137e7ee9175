"""Comparison of frameworks and strategies in terminal and page."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

from accelbench.output.console import PlainConsole
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import Work
from accelbench.report.sections.strategies_compared import comparisons, section
from tests.fixtures.report_pages import page_of
from tests.fixtures.report_records import HOSTILE, studied, timing


def training(seconds: float, backend: str = "tensorflow", replicas: int | None = None, **axes: str | int) -> Record:
    work, steps = Work(items=64, item="windows"), timing(seconds, spread=0.0, timer="steps", stop="epochs done")
    found = studied("bilstm", "cpu", 10.0, 0.9, params=axes, backend=backend, timing=steps, work=work)
    return found.model_copy(update={"layout": replace(found.layout, replicas=replicas or found.layout.replicas)})


def strategies() -> list[Record]:
    return [
        training(0.064, strategy="none", units=16),
        training(0.032, strategy="mirrored", devices=2, units=16),
        training(0.128, strategy="parameter-server", processes=3, replicas=1, units=16),
    ]


def printed(records: list[Record]) -> str:
    output = io.StringIO()
    assert section.terminal
    section.terminal(comparisons(records), PlainConsole(file=output, width=120))
    return output.getvalue()


def test_strategies_are_compared_with_their_replicas() -> None:
    (comparison,) = comparisons(strategies())
    assert comparison.title == "bilstm cpu: by strategy"
    assert [(e.label, e.replicas, round(e.rate)) for e in comparison.entries] == [
        ("none", 1, 1000),
        ("mirrored", 2, 2000),
        ("parameter-server", 1, 500),
    ]
    rows = [line.split() for line in printed(strategies()).splitlines()]
    assert ["mirrored", "2", "2,000", "2,000–2,000", "100%", "32.0", "ms"] in rows
    assert ["parameter-server", "1", "500.0", "500–500", "25%", "128", "ms"] in rows


def test_frameworks_are_labelled_by_name() -> None:
    both = [training(0.1, name, scaling="weak", processes=2) for name in ("tensorflow", "torch")]
    (comparison,) = comparisons(both)
    assert comparison.title == "bilstm cpu: weak scaling by framework"
    assert [entry.label for entry in comparison.entries] == ["tensorflow", "torch"]


def test_different_training_workloads_are_not_compared() -> None:
    assert comparisons([*strategies()[:1], training(0.1, strategy="mirrored", devices=2, units=32)]) == []


def test_frameworks_on_a_single_device_are_not_compared() -> None:
    single = [training(0.1, name, strategy="none") for name in ("tensorflow", "torch")]
    assert comparisons(single) == []
    assert printed(single) == ""


def test_the_page_has_drawing_and_table(tmp_path: Path) -> None:
    records = [*strategies(), training(0.1, strategy=HOSTILE, units=16)]
    page = page_of(tmp_path, records)
    section = page[page.index('id="strategies"') : page.index('id="scaling"')]
    assert "bilstm cpu: by strategy: windows/s against replicas" in section
    assert "parameter-server" in section
    assert "<script" not in section
    assert 'id="strategies"' not in page_of(tmp_path / "one", records[:1])
