"""Scaling of training workloads in terminal and page."""

from __future__ import annotations

import io
import re
from pathlib import Path

from accelbench.output.console import PlainConsole
from accelbench.profiling.analysis.step_parts import split_step
from accelbench.profiling.records.record import RankRecord, Record
from accelbench.profiling.records.step import IsolatedTimes
from accelbench.profiling.records.work import Work
from accelbench.report.page import render_page
from accelbench.report.rows import make_groups, make_rows
from accelbench.report.section import Run
from accelbench.report.sections.scaling_of_trainings import (
    ScalingTable,
    exchange_text,
    part_values,
    scaling_tables,
    section,
)
from tests.fixtures.report_records import HOSTILE, record, studied, timing
from tests.fixtures.report_runs import make_run

EXCHANGE = 0.02


def training(seconds: float, processes: int = 1, **axes: str | int) -> Record:
    """Return a record of a training workload with an exposed exchange of 20 ms."""
    params = axes | ({"processes": processes} if processes > 1 else {})
    steps = timing(seconds, timer="steps", stop="epochs done")
    found = studied("bilstm", "cpu", 10.0, 0.9, params=params, timing=steps, work=Work(items=64, item="windows"))
    if processes == 1:
        return found
    isolated = IsolatedTimes(apart_s=[seconds - EXCHANGE] * 12, input_s=0.001, alone_s=[EXCHANGE] * 20, bytes=4e6)
    parts = split_step(steps.summary.median, [isolated] * processes)
    return found.model_copy(update={"parts": parts, "ranks": [RankRecord(rank=r, node=r) for r in range(processes)]})


def collectives() -> list[Record]:
    """Return records of all-reduces on two ranks: 0.1 ms latency and 400 MB/s in each of the two steps."""
    return [
        record(
            "collectives",
            figure="bytes",
            params={"op": "all-reduce", "impl": "gloo", "bytes": size, "processes": 2},
            work=Work(bytes=size, all_reduced=size),
            timing=timing(2 * (1e-4 + size / 2 / 4e8)),
        )
        for size in (1 << 10, 1 << 16, 1 << 20, 1 << 24)
    ]


def printed(records: list[Record]) -> str:
    output = io.StringIO()
    assert section.terminal
    section.terminal(scaling_tables(records), PlainConsole(file=output, width=160))
    return output.getvalue()


def page_of(folder: Path, records: list[Record]) -> str:
    return render_page(Run(make_run(folder / "run", records).info(), records))


def only_table(records: list[Record]) -> ScalingTable:
    (table,) = scaling_tables(records)
    return table


def test_the_table_has_rate_speed_up_and_efficiency() -> None:
    text = printed([training(0.1), training(0.07, 2), training(0.055, 4)])
    assert "strong scaling" in text
    rows = {line.split()[0]: line for line in text.splitlines() if re.match(r" *[124] ", line)}
    assert "71 % (71–72)" in text
    assert "1.43 (" in text
    assert set(rows) == {"1", "2", "4"}


def test_the_parts_add_up_to_the_step() -> None:
    table = only_table([training(0.1), training(0.07, 2)])
    ((step, parts),) = table.parts
    assert step.replicas == 2
    assert abs(sum(value or 0.0 for value in part_values(parts).values()) - parts.step_s) < 0.05 * parts.step_s
    text = printed([training(0.1), training(0.07, 2)])
    assert text.count("20.0 ms") >= 2


def test_parts_longer_than_the_step_are_marked_as_noisy() -> None:
    longer = IsolatedTimes(apart_s=[0.1] * 12, input_s=0.001, alone_s=[EXCHANGE] * 20, bytes=4e6)
    assert "125%" in exchange_text(split_step(0.08, [longer] * 2))
    assert "noisy" not in exchange_text(split_step(0.12, [longer] * 2))


def test_larger_numbers_of_replicas_are_predicted(tmp_path: Path) -> None:
    records = [*collectives(), training(0.1), training(0.07, 2)]
    table = only_table(records)
    assert [one.replicas for one in table.predicted] == [1, 2, 4, 8, 16]
    assert [one.measured_s is None for one in table.predicted] == [False, False, True, True, True]
    assert "prediction, not measured" in printed(records)
    page = page_of(tmp_path, records)
    assert "Prediction, not measured" in page
    assert "4 all-reduces" in page
    assert "2.0×" in printed(records)


def test_without_collectives_there_is_no_prediction() -> None:
    assert only_table([training(0.1), training(0.07, 2)]).predicted == ()
    assert "rediction" not in printed([training(0.1), training(0.07, 2)])


def test_a_run_without_scaling_has_no_section(tmp_path: Path) -> None:
    assert printed([training(0.1)]) == ""
    assert 'id="scaling"' not in page_of(tmp_path, [training(0.1), *collectives()])


def test_the_page_has_drawing_and_tables_with_escaped_text(tmp_path: Path) -> None:
    page = page_of(tmp_path, [training(0.1, units=HOSTILE), training(0.07, 2, units=HOSTILE)])
    section = page[page.index('id="scaling"') : page.index('id="benchmarks"')]
    assert "speed-up against replicas" in section
    assert "<strong>exposed</strong>" in section
    assert "<script" not in section


def test_a_point_without_an_optional_axis_has_its_default() -> None:
    (group,) = make_groups(make_rows([training(0.1), training(0.07, 2)]))
    assert [group.short(row) for row in group.rows] == ["processes=1", "processes=2"]
