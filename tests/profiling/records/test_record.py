"""Rate, unit and interval of a record, for each metric."""

from __future__ import annotations

from datetime import UTC, datetime
from math import nan
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.timing import Timing
from accelbench.profiling.records.work import MainMetric, Work
from accelbench.profiling.timing.statistics import summarize

SAMPLES = [2.0, 2.0, 2.0, 1.0, 4.0, 2.0, 2.0, 2.0]
WORK = Work(flops=8e9, bytes=4e9, items=16, item="images")


def measured(
    metric: MainMetric, work: Work | None = WORK, status: Literal["measured", "failed"] = "measured"
) -> Record:
    timing = Timing(samples=SAMPLES, stop="sample limit", timer="host", summary=summarize(SAMPLES))
    started = datetime(2025, 1, 1, tzinfo=UTC)
    return Record(point=Point("b", "cpu", {}), figure=metric, status=status, started=started, work=work, timing=timing)


@pytest.mark.parametrize(
    ("metric", "unit", "amount"), [("flops", "FLOP/s", 8e9), ("bytes", "B/s", 4e9), ("items", "images/s", 16)]
)
def test_rate_interval_is_the_inverse_of_the_time_interval(metric: MainMetric, unit: str, amount: float) -> None:
    record = measured(metric)
    assert record.timing is not None
    summary = record.timing.summary
    assert record.unit == unit
    assert record.rate_interval() == (amount / 2.0, amount / summary.ci_high, amount / summary.ci_low)


@given(
    st.lists(st.floats(1e-9, 1e3), min_size=2, max_size=20), st.floats(1.0, 1e15), st.sampled_from(["flops", "time"])
)
def test_the_rate_is_in_its_interval(samples: list[float], amount: float, metric: MainMetric) -> None:
    timing = Timing(samples=samples, stop="sample limit", timer="host", summary=summarize(samples))
    work = Work(flops=amount, items=amount)
    rate, low, high = measured(metric, work).model_copy(update={"timing": timing}).rate_interval() or (nan, nan, nan)
    assert low <= rate <= high


def test_time_is_per_item_if_items_are_counted() -> None:
    found = measured("time").rate_interval()
    assert found is not None
    assert found[0] == 2.0 / 16
    assert found[1] <= found[0] <= found[2]
    assert measured("time", Work(flops=1.0)).rate_interval() == tuple(16 * value for value in found)
    assert measured("time").unit == "s"


def test_rate_of_a_metric_other_than_the_main_one() -> None:
    assert measured("items").rate_interval("flops") == measured("flops").rate_interval()


def test_no_rate_without_work_or_measurement() -> None:
    assert measured("flops", Work(items=3)).rate_interval() is None
    assert measured("flops", None).rate_interval() is None
    assert measured("flops", status="failed").rate_interval() is None
