"""Energy of executions and work per joule."""

from __future__ import annotations

from typing import Any

import pytest

from accelbench.profiling.analysis.energy import energy_of_execution, mean_power, work_per_joule
from accelbench.profiling.analysis.rounds import join
from accelbench.profiling.records.layout import Layout
from accelbench.profiling.records.quality import Metric
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import Work
from tests.fixtures.report_records import gpu_telemetry, record, timing, training


def kernel(energy_j: float | None = 1200.0, wall_s: float = 2.0, **changes: Any) -> Record:
    """Return the record of a product with a mean power of 600 W."""
    counters = {"wall_s": wall_s} | ({} if energy_j is None else {"gpu.energy_j": energy_j})
    fields: dict[str, Any] = {
        "figure": "flops",
        "work": Work(flops=3e12),
        "telemetry": gpu_telemetry(counters=counters),
    }
    return record("matmul", "gpu", **fields | changes)


def test_an_execution_has_the_mean_power_for_its_time_and_its_interval() -> None:
    found = kernel()
    assert found.timing
    seconds, low, high, _ = found.timing.execution
    assert mean_power(found) == pytest.approx(600)
    assert energy_of_execution(found) == pytest.approx((600 * seconds, 600 * low, 600 * high))
    rate = found.rate_interval()
    assert rate
    assert work_per_joule(found) == pytest.approx(tuple(each / 600 for each in rate))


def test_a_bound_of_the_time_has_no_interval() -> None:
    bound = work_per_joule(kernel(timing=timing(1e-3, upper_bound="2 samples were clean")))
    assert bound
    assert bound.low == bound.value == bound.high


@pytest.mark.parametrize(
    "unknown",
    [kernel(None), kernel(wall_s=0.1), kernel(0.0), kernel(layout=Layout(processes=2)), kernel(telemetry=None)],
)
def test_unknown_energy_is_unknown(unknown: Record) -> None:
    assert (mean_power(unknown), energy_of_execution(unknown), work_per_joule(unknown)) == (None, None, None)


def test_unknown_work_has_energy() -> None:
    found = kernel(work=None)
    assert energy_of_execution(found)
    assert work_per_joule(found) is None


def test_a_time_has_items_per_joule() -> None:
    found = work_per_joule(kernel(figure="time", work=Work(items=10, item="launches")))
    assert found
    assert found.value == pytest.approx(10 / 600 / 1e-3, rel=0.1)


def test_a_training_step_has_its_share_of_the_training_run() -> None:
    found = training("gpu", "float32", 0.01, metrics={"energy_per_step": Metric(4.0, "J")})
    assert energy_of_execution(found) == (4.0, 4.0, 4.0)
    per_joule = work_per_joule(found)
    assert per_joule
    assert per_joule.value == 128 / 4.0
    assert energy_of_execution(training("gpu", "float32", 0.01)) is None


def test_repetitions_have_an_energy_only_if_each_has_one() -> None:
    assert mean_power(join([kernel(), kernel(600.0, 1.0, round=2)])) == pytest.approx(600)
    assert mean_power(join([kernel(), kernel(None, round=2)])) is None
    assert mean_power(join([kernel(wall_s=0.4), kernel(wall_s=0.1, round=2)])) is None
