"""The turns of two sides whose measurements are made up: their order, what ends a point, and the verdicts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from time import monotonic

import numpy as np
import pytest

from accelbench.pair.paired import LOOKS, Letter
from accelbench.pair.result import PointResult
from accelbench.pair.turns import MeasureSide, PairSeries, take_turns
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.telemetry import Telemetry
from accelbench.profiling.records.work import Work
from tests.fixtures.compare_runs import failed, measured, samples

POINTS: dict[Letter, Point] = {"A": Point("matmul", "cpu", {"n": 1}), "B": Point("matmul", "cpu", {"n": 2})}
Times = Callable[[Letter, int], float]


def course(name: str = "matmul cpu") -> PairSeries:
    return PairSeries(name, dict(POINTS))


def course_of(measure: MeasureSide, within: float = 0.5, seconds: float = 60) -> PairSeries:
    """Return the only point after its turns."""
    only = course()
    take_turns([only], measure, within, monotonic() + seconds, lambda _: None)
    return only


def turns(times: Times, within: float = 0.015, seconds: float = 60, **fields: object) -> tuple[PointResult, str]:
    """What is found where the measurement of that number takes so many seconds, and the order of the sides."""
    order: list[str] = []

    def measure(side: Letter, point: Point) -> Record:
        assert point == POINTS[side]
        order.append(side)
        return measured(samples(times(side, len(order)), count=3, seed=len(order)), **fields)

    return course_of(measure, within, seconds).result(within), "".join(order)


def test_the_sides_take_turns_after_a_first_measurement_that_does_not_count() -> None:
    found, order = turns(lambda side, number: 1.0, within=0.5)
    assert order == "AB" + "ABBABAAB" * 2
    assert len(found.ratios) == 8


@pytest.mark.parametrize(("seconds", "verdict"), [(1.05, "slower"), (0.95, "faster"), (1.0, "same")])
def test_the_verdict_is_on_b_against_a(seconds: float, verdict: str) -> None:
    found, _ = turns(lambda side, number: seconds if side == "B" else 1.0)
    assert (found.verdict, found.reason) == (verdict, None)


def test_a_machine_that_slows_down_more_and_more_slows_neither_side() -> None:
    found, _ = turns(lambda side, number: 1.05**number * (1.03 if side == "B" else 1.0), within=0.001)
    assert found.speed is not None
    assert found.speed.value == pytest.approx(1 / 1.03, rel=0.003)


def test_a_point_goes_on_until_its_interval_is_as_narrow_as_was_asked_for() -> None:
    wide, _ = turns(lambda side, number: 1.0, within=0.02)
    narrow, _ = turns(lambda side, number: 1.0, within=0.003)
    assert len(wide.ratios) < len(narrow.ratios) <= LOOKS[-1]
    assert narrow.verdict == "same"


@pytest.mark.parametrize(
    ("waited", "others", "verdict"), [(1.0, 1.0, "cannot tell"), (0.1, 1.0, "slower"), (1.0, 0.0, "slower")]
)
def test_where_others_keep_its_threads_from_the_cpus_the_times_are_not_its_own(
    waited: float, others: float, verdict: str
) -> None:
    counters = {"process.run_queue_wait_s": waited, "cpu.own_s": 1.0, "cpu.other_s": others}
    telemetry = Telemetry(interval_s=0.25, gauges={}, counters=counters)
    found, _ = turns(lambda side, number: 1.05 if side == "B" else 1.0, telemetry=telemetry)
    assert found.verdict == verdict
    assert ("other processes kept its threads from a CPU for 50 %" in str(found.reason)) == (verdict == "cannot tell")


def test_the_time_limit_ends_a_point_and_the_reason_says_so() -> None:
    found, order = turns(lambda side, number: 1.0, seconds=0)
    assert order == "AB"
    assert (found.verdict, found.reason) == ("cannot tell", "no pair: the time limit ended it")


def test_a_point_that_does_not_become_narrow_ends_at_the_last_look() -> None:
    rng = np.random.default_rng(0)
    found, _ = turns(lambda side, number: rng.lognormal(sigma=0.3))
    assert len(found.ratios) == LOOKS[-1]
    assert found.verdict == "cannot tell"
    assert "is wider than the ±1.5 % asked for: it ends after 140 pairs" in str(found.reason)


def test_noise_ends_nothing_and_is_counted() -> None:
    found, _ = turns(lambda side, number: 1.0, within=0.5, noise=["other processes used 1.0 of 2 CPUs"])
    assert (found.verdict, found.disturbed) == ("same", 16)


def test_a_measurement_that_waits_most_of_the_time_counts_by_what_ran() -> None:
    def measure(side: Letter, point: Point) -> Record:
        waited = 14 + 5 * (next(number) % 3)  # of 30 samples: the median is on either side
        return measured([1.0] * (30 - waited) + [2.0] * waited)

    number = count()
    assert course_of(measure).ratios == pytest.approx([1.0] * 8)


def test_the_steps_of_a_training_count_as_they_are() -> None:
    times = {"A": [1.0] * 10 + [1.0] * 20, "B": [1.0] * 10 + [2.0] * 20}
    assert course_of(lambda side, _: measured(times[side], timer="steps")).ratios == pytest.approx([0.5] * 8)


def test_a_side_that_fails_ends_its_point_alone() -> None:
    def measure(side: Letter, point: Point) -> Record:
        return failed("wrong answer") if point["n"] == 2 else measured(samples(1.0))

    bad, good = course("bad"), PairSeries("good", {"A": POINTS["A"], "B": POINTS["A"]})
    take_turns([bad, good], measure, 0.5, monotonic() + 60, lambda _: None)
    assert (bad.result(0.5).verdict, bad.result(0.5).reason) == ("not measured", "B failed: wrong answer")
    assert good.result(0.5).verdict == "same"


def test_sides_that_do_different_work_are_compared_by_their_rates() -> None:
    def measure(side: Letter, point: Point) -> Record:
        return measured(samples(1.0), work=Work(flops=1e9 if side == "A" else 2e9))

    found = course_of(measure).result(0.5)
    assert found.ratios == pytest.approx([2.0] * 8)
    assert [found.figure_a, found.figure_b] == pytest.approx([1e9, 2e9], rel=0.02)
    assert found.unit == "FLOP/s"


def test_sides_that_are_reported_by_different_figures_are_not_compared() -> None:
    def measure(side: Letter, point: Point) -> Record:
        return measured(samples(1.0), figure="flops" if side == "A" else "time")

    assert course_of(measure).result(0.5).reason == "A is measured in FLOP/s (flops) and B in s (time)"
