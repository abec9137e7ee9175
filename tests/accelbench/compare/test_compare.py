from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.compare.change import compare_point, judge
from accelbench.compare.evidence import from_repetitions
from accelbench.compare.regression import FailOn, regressions
from accelbench.compare.runs import compare
from accelbench.errors import UserError
from accelbench.profiling.records.quality import Data, Quality
from accelbench.profiling.records.telemetry import Gauge, Telemetry
from accelbench.profiling.records.work import Work
from accelbench.profiling.timing.statistics import Estimate
from tests.fixtures.compare_runs import (
    MATMUL,
    Runs,
    evidence_of,
    failed,
    in_rounds,
    measured,
    samples,
    shown,
    steady,
    trained,
)

STEAL = "steal: the hypervisor gave 9% of the CPU time to others"


# Several runs a side.
@pytest.mark.parametrize(
    ("times_of_b", "verdict", "speed"),
    [
        ([1.25, 1.26, 1.24], "slower", 0.8),
        ([0.8, 0.795, 0.805], "faster", 1.25),
        ([1.001, 1.0, 0.999], "same", 1.0),
    ],
)
def test_the_spread_between_runs_decides_where_there_are_several(
    runs: Runs, times_of_b: list[float], verdict: str, speed: float
) -> None:
    change = runs.several([1.0, 1.005, 0.995], times_of_b)
    assert (change.verdict, change.reason) == (verdict, None)
    assert evidence_of(change).basis == "3 and 3 runs"
    assert evidence_of(change).speed.value == pytest.approx(speed, rel=0.005)
    assert evidence_of(change).speed.low < speed < evidence_of(change).speed.high


def test_runs_that_spread_as_much_as_they_differ_cannot_be_told_however_steady_each_is(runs: Runs) -> None:
    change = runs.several([1.0, 1.1, 0.95], [1.12, 1.0, 1.2])
    assert (change.verdict, change.reason) == ("cannot tell", "the interval reaches from slower to faster")


def test_two_runs_a_side_are_wider_than_five(runs: Runs) -> None:
    sides = ([1.0, 1.01], [1.1, 1.11]), ([1.0, 1.01] * 2, [1.1, 1.11] * 2)
    few, many = (evidence_of(runs.several(*side)).speed for side in sides)
    assert few.low < many.low < many.high < few.high


def test_a_side_of_one_run_takes_the_spread_of_the_other_and_says_so(runs: Runs) -> None:
    change = runs.several([1.0, 1.01, 0.99, 1.005], [1.3])
    assert change.verdict == "slower"
    assert change.notes == ("B has one of the runs only, and is taken to vary as the other side does",)


def test_runs_without_any_spread_decide_nothing_but_that_they_are_the_same(runs: Runs) -> None:
    constant = runs.several([1.0, 1.0, 1.0], [2.0, 2.0, 2.0])
    assert constant.reason == "it looks slower, but no two figures of a side differ by anything"
    assert runs.several([1.0, 1.0], [1.0, 1.0]).verdict == "same"


positive = st.lists(st.floats(min_value=0.1, max_value=10), min_size=2, max_size=6)


@given(positive, positive)
def test_seen_from_the_other_side_the_evidence_is_turned_over(a: list[float], b: list[float]) -> None:
    there, back = from_repetitions(a, b, "runs"), from_repetitions(b, a, "runs")
    assert there is not None
    assert back is not None
    assert there.shift == pytest.approx(-back.shift)
    assert there.p == pytest.approx(back.p)
    assert there.speed.low <= there.speed.value * (1 + 1e-12)
    assert there.freedom >= min(len(a), len(b)) - 1 - 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("deviation", [0.01, 0.03, 0.05])
def test_runs_of_equal_speed_are_told_apart_in_at_most_one_point_of_twenty(deviation: float) -> None:
    generator = np.random.default_rng(1)
    wrong = 0
    for _ in range(1000):
        a, b = generator.lognormal(sigma=deviation, size=(2, 3)).tolist()
        evidence = from_repetitions(a, b, "runs")
        assert evidence is not None
        wrong += judge(evidence.speed, 0.03)[0] in ("faster", "slower")
    assert wrong <= 50


# One run a side.
@pytest.mark.parametrize(("time_of_b", "verdict"), [(1.4, "slower"), (0.7, "faster"), (1.1, "cannot tell")])
def test_one_process_each_decides_only_what_is_beyond_the_spread_assumed_of_processes(
    runs: Runs, time_of_b: float, verdict: str
) -> None:
    change = runs.one(samples(1.0, seed=1), samples(time_of_b, seed=2))
    assert change.verdict == verdict
    assert change.notes[0].startswith("how much processes differ here is not known, 5% is assumed")


@pytest.mark.parametrize(
    ("rounds_of_b", "verdict"),
    [
        pytest.param([1.3, 1.31, 1.29, 1.3], "slower", id="beyond what runs are assumed to differ by"),
        pytest.param([1.1, 1.11, 1.09, 1.1], "cannot tell", id="within it"),
        pytest.param([1.1, 1.9, 1.0, 1.3], "cannot tell", id="rounds far apart"),
    ],
)
def test_rounds_of_one_run_each_decide_by_their_spread_and_that_assumed_of_runs(
    rounds_of_b: list[float], verdict: str
) -> None:
    change = compare_point([in_rounds([1.0, 1.01, 0.99, 1.0])], [in_rounds(rounds_of_b)], 0.03, even_if_disturbed=True)
    assert change.verdict == verdict
    assert evidence_of(change).basis == "4 and 4 rounds of one run each"
    assert change.notes[0].startswith("how much runs differ here is not known, 5% is assumed")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_from_two_or_three_samples_nothing_is_concluded(runs: Runs, count: int) -> None:
    change = runs.one([1.0] * count, [1.0] * count)
    assert change.verdict == "cannot tell"
    assert change.reason == f"too few samples ({count} and {count}) for an interval that covers 95%"


def test_one_sample_in_each_of_several_runs_is_enough(runs: Runs) -> None:
    a, b = ([runs.stored([measured([seconds])]) for seconds in side] for side in ([1.0, 1.01, 0.99], [2.0, 2.02, 1.98]))
    assert compare(a, b).changes[0].verdict == "slower"


# The verdict on an interval.
def test_a_certain_difference_about_as_large_as_the_equivalence_is_neither_slower_nor_the_same() -> None:
    verdict, reason = judge(Estimate(0.96, 0.985, 0.95, 0.975), 0.03)
    assert verdict == "cannot tell"
    assert reason == "slower, but perhaps by no more than the 3.0 % that count as the same"
    assert judge(Estimate(0.96, 0.985, 0.95, 0.975), 0.01) == ("slower", None)


@pytest.mark.parametrize("equivalence", [-0.01, 1.0, 3.0])
def test_an_equivalence_that_is_no_share_is_wrong_use(runs: Runs, equivalence: float) -> None:
    with pytest.raises(UserError, match="less than 100 %"):
        runs([], [], equivalence=equivalence)


ratios = st.lists(st.floats(min_value=0.2, max_value=5), min_size=3, max_size=3).map(sorted)
shares = st.floats(min_value=0, max_value=0.5)


@given(ratios, shares)
def test_seen_from_the_other_run_slower_is_faster_and_the_rest_stays(bounds: list[float], equivalence: float) -> None:
    low, ratio, high = bounds
    verdict, reason = judge(Estimate(low, high, 0.95, ratio), equivalence)
    turned = Estimate(1 / high, 1 / low, 0.95, 1 / ratio)
    opposite = {"slower": "faster", "faster": "slower"}
    near = [abs(value * (1 - equivalence) ** side - 1) for value in bounds for side in (-1, 0, 1)]
    if min(near) > 1e-9:  # 1/x rounds
        assert judge(turned, equivalence)[0] == opposite.get(verdict, verdict)
    assert (reason is None) == (verdict != "cannot tell")
    if verdict == "slower":
        assert high < 1
        assert ratio < 1 - equivalence
    if verdict == "same":
        assert 1 - equivalence <= low <= high <= 1 / (1 - equivalence)


# Disturbed records.
def test_a_disturbed_side_decides_nothing_and_is_no_regression_unless_asked_for(runs: Runs) -> None:
    a, b = [measured(samples(1.0, seed=1))], [measured(samples(2.0, seed=2), noise=[STEAL])]
    comparison = runs(a, b)
    (change,) = comparison.changes
    assert (change.verdict, change.reason) == ("cannot tell", "B was disturbed")
    assert f"B is disturbed: {STEAL}" in change.notes
    assert regressions(comparison, FailOn(5)) == ()
    text = shown(comparison)
    assert STEAL in text
    assert "p <" not in text
    asked = runs(a, b, even_if_disturbed=True)
    assert asked.changes[0].verdict == "slower"
    assert len(regressions(asked, FailOn(5))) == 1


def test_a_drifting_side_decides_nothing(runs: Runs) -> None:
    drifting = [1.0 + 0.01 * number for number in range(40)]
    change = runs.one(samples(1.0, seed=1), [seconds * 2 for seconds in drifting])
    assert (change.verdict, change.reason) == ("cannot tell", "B was disturbed")


def test_a_disturbed_training_among_several_is_left_out_and_named(runs: Runs) -> None:
    a = [runs.stored([trained(samples(median, spread=0.001), 0.9)]) for median in (1.0, 1.005, 0.995)]
    b = [runs.stored([trained(samples(median, spread=0.001), 0.9)]) for median in (1.0, 1.004)]
    b.append(runs.stored([trained(samples(1.8), 0.9, noise=[STEAL])]))
    (change,) = compare(a, b).changes
    assert change.verdict == "same"
    assert change.notes == (f"B3 is disturbed: {STEAL}; it is left out",)
    assert len(change.b) == 2


def test_a_disturbed_run_of_a_kernel_counts_by_its_fastest_samples_among_others(runs: Runs) -> None:
    a = [runs.stored([steady(median)]) for median in (1.0, 1.005, 0.995)]
    b = [runs.stored([steady(median)]) for median in (1.0, 1.004)]
    waiting = samples(1.002, spread=0.001, count=10) + samples(3.0, spread=0.3, count=20)
    b.append(runs.stored([measured(waiting, noise=[STEAL])]))
    (change,) = compare(a, b).changes
    assert change.verdict == "same"
    (told,) = change.notes
    assert told.startswith(f"B3 is disturbed: {STEAL}")
    assert "left out" not in told
    assert len(change.b) == 3


# What stands beside a verdict.
def test_executions_of_different_size_are_compared_by_their_rates(runs: Runs) -> None:
    stream: dict[str, Any] = {"benchmark": "stream", "figure": "bytes", "params": {"kernel": "triad"}}
    a = measured(samples(1.0, seed=1), work=Work(bytes=1e9), **stream)
    b = measured(samples(2.0, seed=2), work=Work(bytes=2e9), **stream)
    (change,) = runs([a], [b]).changes
    assert evidence_of(change).speed.value == pytest.approx(1, abs=0.01)
    assert "one execution is 1e+09 bytes in A and 2e+09 in B, so the rates are compared" in change.notes


@pytest.mark.parametrize(("figure", "known"), [("flops", Work(flops=1e9)), ("time", Work(items=100))])
def test_work_known_in_one_run_only_leaves_the_times(runs: Runs, figure: str, known: Work) -> None:
    a = measured(samples(1.0, seed=1), figure=figure, work=known)
    (change,) = runs([a], [measured(samples(1.0, seed=2), figure=figure, work=None)]).changes
    assert evidence_of(change).speed.value == pytest.approx(1, abs=0.01)


def test_work_known_in_one_run_only_is_told(runs: Runs) -> None:
    (change,) = runs([measured(samples(1.0, seed=1))], [measured(samples(1.0, seed=2), work=None)]).changes
    assert "the work of one execution is known on one side only, so the times are compared as they are" in change.notes


def test_another_timer_and_another_clock_during_the_measurement_are_told(runs: Runs) -> None:
    def observed(clock: float) -> Telemetry:
        gauges = {"gpu.sm_clock": Gauge(minimum=clock, median=clock, maximum=clock, unit="MHz")}
        return Telemetry(interval_s=0.5, gauges=gauges, counters={})

    a = measured(samples(1.0), device="gpu", telemetry=observed(1980))
    b = measured(samples(1.0), device="gpu", telemetry=observed(1600), timer="nvbench")
    (change,) = runs([a], [b]).changes
    assert change.notes[1:] == (
        "timed by host in A and by nvbench in B",
        "gpu.sm_clock was 1980 MHz in A and 1600 MHz in B",
    )
    steady = measured(samples(1.0), device="gpu", telemetry=observed(1979))
    assert len(runs([a], [steady]).changes[0].notes) == 1


def test_the_quality_of_a_training_stands_beside_its_speed(runs: Runs) -> None:
    comparison = runs([trained(samples(0.1), accuracy=0.9812)], [trained(samples(0.1), accuracy=0.9377)])
    (change,) = comparison.changes
    assert {name: (a.value, b.value) for name, (a, b) in change.qualities.items()} == {
        "test_accuracy": (0.9812, 0.9377)
    }
    assert "test_accuracy 0.9812 / 0.9377" in shown(comparison)


def test_a_quality_stands_with_the_interval_that_its_held_out_examples_leave_open(runs: Runs) -> None:
    share = {"qualities": [Quality("test_accuracy", of="examples")], "data": Data("digits", 4500, 500)}
    sides = [trained(samples(0.1), accuracy, **share) for accuracy in (0.98, 0.94)]
    text = shown(runs([sides[0]], [sides[1]]))
    assert "test_accuracy 0.98 (0.964–0.989) /" in text
    assert "0.94 (0.916–0.958)" in text


def test_a_record_with_impossible_samples_is_no_answer_and_no_crash(runs: Runs) -> None:
    good = measured(samples(1.0))
    assert good.timing is not None
    for broken in (
        good.model_copy(update={"timing": None}),
        good.model_copy(update={"timing": good.timing.model_copy(update={"samples": []})}),
    ):
        (change,) = runs([good], [broken]).changes
        assert (change.verdict, change.reason) == ("cannot tell", "a record without usable samples")


# Points that cannot be compared.
def test_failed_skipped_and_missing_points_are_listed_with_their_reasons(runs: Runs) -> None:
    small, large, huge = ({**MATMUL, "n": n} for n in (256, 4096, 65536))
    a = [measured(samples(1.0), params=small), measured(samples(1.0), params=large), failed("hung", params=huge)]
    b = [failed("wrong answer", params=small), failed("no GPU", benchmark="launch", params={}, status="skipped")]
    comparison = runs(a, [*b, failed("too large", params=huge, status="skipped")])
    assert comparison.changes == ()
    assert [(pair.point, pair.a[0].status, pair.b[0].status) for pair in comparison.unmeasured] == [
        ("matmul cpu impl=vendor n=256", "measured", "failed"),
        ("matmul cpu impl=vendor n=65536", "failed", "skipped"),
    ]
    assert comparison.only_a == ("matmul cpu impl=vendor n=4096",)
    assert comparison.only_b == ("launch cpu",)
    text = shown(comparison)
    assert "matmul cpu impl=vendor n=256: in A measured; in B failed (wrong answer)" in text
    assert "matmul cpu impl=vendor n=65536: in A failed (hung); in B skipped (too large)" in text
    assert "matmul cpu impl=vendor n=4096: only in A" in text
    assert "launch cpu: only in B" in text
    assert "No point was measured on both sides." in text


def test_points_of_other_devices_and_backends_do_not_match(runs: Runs) -> None:
    a = [measured(samples(1.0)), trained(samples(0.1), 0.9, backend="tensorflow")]
    b = [measured(samples(1.0), device="gpu"), trained(samples(0.1), 0.9, backend="jax")]
    comparison = runs(a, b)
    assert comparison.changes == ()
    assert len(comparison.only_a) == len(comparison.only_b) == 2


def test_an_unfinished_run_is_named(runs: Runs) -> None:
    comparison = runs([measured(samples(1.0))], [measured(samples(1.0))], status="interrupted")
    assert comparison.notes == ("B is not finished (interrupted): 1 of its 1 points have a record",)
    assert comparison.notes[0] in shown(comparison)
