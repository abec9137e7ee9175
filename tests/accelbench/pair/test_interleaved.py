"""Interleaved measurement with synthetic records: order, end of a point, verdicts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from time import monotonic
from typing import Any

import numpy as np
import pytest

from accelbench.pair.interleaved import MeasureSide, PairSeries, measure_interleaved
from accelbench.pair.paired import LOOKS, Letter
from accelbench.pair.result import PointResult
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.telemetry import Telemetry
from accelbench.profiling.records.timing import SampleCauses
from accelbench.profiling.records.work import Work
from tests.fixtures.compare_runs import failed, measured, samples

POINTS: dict[Letter, Point] = {"A": Point("matmul", "cpu", {"n": 1}), "B": Point("matmul", "cpu", {"n": 2})}
Times = Callable[[Letter, int], float]


def pair_series(name: str = "matmul cpu") -> PairSeries:
    return PairSeries(name, dict(POINTS))


def measured_series(measure: MeasureSide, within: float = 0.5, seconds: float = 60) -> PairSeries:
    """Return the series of one point after its measurement."""
    only = pair_series()
    measure_interleaved([only], measure, within, monotonic() + seconds, lambda _: None)
    return only


def interleaved(times: Times, within: float = 0.015, seconds: float = 60, **fields: object) -> tuple[PointResult, str]:
    """Return the result and the order of the sides; `times` gives the seconds by side and measurement number."""
    order: list[str] = []

    def measure(side: Letter, point: Point) -> Record:
        assert point == POINTS[side]
        order.append(side)
        return measured(samples(times(side, len(order)), count=3, seed=len(order)), **fields)

    return measured_series(measure, within, seconds).result(within), "".join(order)


def test_the_sides_alternate_after_an_uncounted_pair() -> None:
    found, order = interleaved(lambda side, number: 1.0, within=0.5)
    assert order == "AB" + "ABBABAAB" * 2
    assert len(found.ratios) == 8


@pytest.mark.parametrize(("seconds", "verdict"), [(1.05, "slower"), (0.95, "faster"), (1.0, "same")])
def test_the_verdict_is_for_b_compared_with_a(seconds: float, verdict: str) -> None:
    found, _ = interleaved(lambda side, number: seconds if side == "B" else 1.0)
    assert (found.verdict, found.reason) == (verdict, None)


def test_drift_favours_neither_side() -> None:
    found, _ = interleaved(lambda side, number: 1.05**number * (1.03 if side == "B" else 1.0), within=0.001)
    assert found.speed is not None
    assert found.speed.value == pytest.approx(1 / 1.03, rel=0.003)


def test_a_point_is_measured_until_its_interval_has_the_requested_width() -> None:
    wide, _ = interleaved(lambda side, number: 1.0, within=0.02)
    narrow, _ = interleaved(lambda side, number: 1.0, within=0.003)
    assert len(wide.ratios) < len(narrow.ratios) <= LOOKS[-1]
    assert narrow.verdict == "same"


@pytest.mark.parametrize(
    ("waited", "others", "verdict"), [(1.0, 1.0, "inconclusive"), (0.1, 1.0, "slower"), (1.0, 0.0, "slower")]
)
def test_waiting_for_cpus_used_by_other_processes_is_inconclusive(waited: float, others: float, verdict: str) -> None:
    counters = {"process.run_queue_wait_s": waited, "cpu.own_s": 1.0, "cpu.other_s": others}
    telemetry = Telemetry(interval_s=0.25, gauges={}, counters=counters)
    found, _ = interleaved(lambda side, number: 1.05 if side == "B" else 1.0, telemetry=telemetry)
    assert found.verdict == verdict
    assert ("50 %" in str(found.reason)) == (verdict == "inconclusive")


def preempted(seconds: float, used: list[tuple[int, int]], **fields: Any) -> Record:
    """Return a record whose samples are whole time slices, except the first eight, which no other process disturbed."""
    times = [*samples(seconds, count=8, spread=0.001), *[0.048, 0.056] * 8]
    causes = SampleCauses(source="schedstat", used=used)
    found = measured(times, **fields)
    assert found.timing is not None
    return found.model_copy(update={"timing": found.timing.model_copy(update={"causes": causes})})


def test_a_pair_is_compared_by_its_clean_samples_however_long_the_threads_waited() -> None:
    counters = {"process.run_queue_wait_s": 1.0, "cpu.own_s": 1.0, "cpu.other_s": 1.0}
    telemetry = Telemetry(interval_s=0.25, gauges={}, counters=counters)

    def measure(side: Letter, point: Point) -> Record:
        return preempted(0.0206 if side == "B" else 0.02, [(0, 8)], telemetry=telemetry)

    found = measured_series(measure).result(0.015)
    assert (found.verdict, found.reason) == ("slower", None)
    assert found.speed is not None
    assert found.speed.value == pytest.approx(0.02 / 0.0206, rel=0.005)


def test_a_pair_of_bounds_is_inconclusive() -> None:
    def measure(side: Letter, point: Point) -> Record:
        found = preempted(0.03 if side == "B" else 0.02, [(0, 24)])
        assert found.timing is not None
        timing = found.timing.model_copy(update={"upper_bound": "only 2 of 24 samples are clean"})
        return found.model_copy(update={"timing": timing})

    found = measured_series(measure).result(0.015)
    assert found.verdict == "inconclusive"
    assert "only 2 of 24" in str(found.reason)


def test_the_time_limit_ends_a_point() -> None:
    found, order = interleaved(lambda side, number: 1.0, seconds=0)
    assert order == "AB"
    assert (found.verdict, found.ratios) == ("inconclusive", [])
    assert "time limit" in str(found.reason)


def test_a_wide_interval_ends_the_point_at_the_last_look() -> None:
    rng = np.random.default_rng(0)
    found, _ = interleaved(lambda side, number: rng.lognormal(sigma=0.3))
    assert len(found.ratios) == LOOKS[-1]
    assert found.verdict == "inconclusive"
    assert all(part in str(found.reason) for part in ("±1.5 %", "140 pairs"))


def test_noisy_measurements_are_counted() -> None:
    found, _ = interleaved(lambda side, number: 1.0, within=0.5, noise=["other processes used 1.0 of 2 CPUs"])
    assert (found.verdict, found.disturbed) == ("same", 16)


def test_a_kernel_is_compared_by_its_fastest_samples() -> None:
    def measure(side: Letter, point: Point) -> Record:
        waited = 14 + 5 * (next(number) % 3)  # of 30 samples: the median is on either side
        return measured([1.0] * (30 - waited) + [2.0] * waited)

    number = count()
    assert measured_series(measure).ratios == pytest.approx([1.0] * 8)


def test_a_training_workload_is_compared_by_all_its_steps() -> None:
    times = {"A": [1.0] * 10 + [1.0] * 20, "B": [1.0] * 10 + [2.0] * 20}
    assert measured_series(lambda side, _: measured(times[side], timer="steps")).ratios == pytest.approx([0.5] * 8)


def test_a_failed_side_ends_only_its_point() -> None:
    def measure(side: Letter, point: Point) -> Record:
        return failed("wrong answer") if point["n"] == 2 else measured(samples(1.0))

    bad, good = pair_series("bad"), PairSeries("good", {"A": POINTS["A"], "B": POINTS["A"]})
    measure_interleaved([bad, good], measure, 0.5, monotonic() + 60, lambda _: None)
    assert bad.result(0.5).verdict == "not measured"
    assert "wrong answer" in str(bad.result(0.5).reason)
    assert good.result(0.5).verdict == "same"


def test_different_work_is_compared_by_rate() -> None:
    def measure(side: Letter, point: Point) -> Record:
        return measured(samples(1.0), work=Work(flops=1e9 if side == "A" else 2e9))

    found = measured_series(measure).result(0.5)
    assert found.ratios == pytest.approx([2.0] * 8)
    assert [found.figure_a, found.figure_b] == pytest.approx([1e9, 2e9], rel=0.02)
    assert found.unit == "FLOP/s"


def test_different_metrics_are_not_compared() -> None:
    def measure(side: Letter, point: Point) -> Record:
        return measured(samples(1.0), figure="flops" if side == "A" else "time")

    result = measured_series(measure).result(0.5)
    assert result.verdict == "not measured"
    assert "FLOP/s" in str(result.reason)
