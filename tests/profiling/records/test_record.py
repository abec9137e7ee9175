"""A record's rate, its unit and its interval, for each figure that a benchmark may lead with."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

import pytest

from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.timing import Timing
from accelbench.profiling.records.work import Figure, Work
from accelbench.profiling.timing.statistics import summarize

SAMPLES = [2.0, 2.0, 2.0, 1.0, 4.0, 2.0, 2.0, 2.0]
WORK = Work(flops=8e9, bytes=4e9, items=16, item="images")


def measured(figure: Figure, work: Work | None = WORK, status: Literal["measured", "failed"] = "measured") -> Record:
    timing = Timing(samples=SAMPLES, stop="sample limit", timer="host", summary=summarize(SAMPLES))
    started = datetime(2025, 1, 1, tzinfo=UTC)
    return Record(point=Point("b", "cpu", {}), figure=figure, status=status, started=started, work=work, timing=timing)


@pytest.mark.parametrize(
    ("figure", "unit", "amount"), [("flops", "FLOP/s", 8e9), ("bytes", "B/s", 4e9), ("items", "images/s", 16)]
)
def test_a_rate_is_slowest_where_an_execution_took_longest(figure: Figure, unit: str, amount: float) -> None:
    record = measured(figure)
    assert record.timing is not None
    summary = record.timing.summary
    assert record.unit == unit
    assert record.rate_interval() == (amount / 2.0, amount / summary.ci_high, amount / summary.ci_low)


def test_a_time_is_of_one_item_where_items_are_counted_and_its_lower_end_is_the_shorter() -> None:
    found = measured("time").rate_interval()
    assert found is not None
    assert found[0] == 2.0 / 16
    assert found[1] <= found[0] <= found[2]
    assert measured("time", Work(flops=1.0)).rate_interval() == tuple(16 * value for value in found)
    assert measured("time").unit == "s"


def test_the_rate_of_another_figure_may_be_asked_for() -> None:
    assert measured("items").rate_interval("flops") == measured("flops").rate_interval()


def test_what_was_not_measured_or_counted_has_no_rate() -> None:
    assert measured("flops", Work(items=3)).rate_interval() is None
    assert measured("flops", None).rate_interval() is None
    assert measured("flops", status="failed").rate_interval() is None
