from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.compare.change import compare_point, judge
from accelbench.compare.comparison_document import document_of_comparison
from accelbench.compare.evidence import ONE_PROCESS, from_repetitions
from accelbench.compare.regression import FailOn, regressions
from accelbench.compare.runs import compare
from accelbench.errors import UserError
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.records.quality import Data, Quality
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.telemetry import Gauge, Placement, Telemetry
from accelbench.profiling.records.work import Work
from accelbench.profiling.timing.statistics import Estimate
from tests.fixtures.compare_runs import (
    MATMUL,
    NOW,
    Runs,
    evidence_of,
    failed,
    in_rounds,
    machine,
    measured,
    repetitions,
    samples,
    shown,
    steady,
    trained,
)

STEAL = "steal: the hypervisor gave 9% of the CPU time to others"


# Several runs per side.
@pytest.mark.parametrize(
    ("times_of_b", "verdict", "speed"),
    [
        ([1.25, 1.26, 1.24], "slower", 0.8),
        ([0.8, 0.795, 0.805], "faster", 1.25),
        ([1.001, 1.0, 0.999], "same", 1.0),
    ],
)
def test_several_runs_are_compared_by_the_spread_between_runs(
    runs: Runs, times_of_b: list[float], verdict: str, speed: float
) -> None:
    change = runs.several([1.0, 1.005, 0.995], times_of_b)
    assert (change.verdict, change.reason) == (verdict, None)
    assert evidence_of(change).basis == "3 and 3 runs"
    assert evidence_of(change).speed.value == pytest.approx(speed, rel=0.005)
    assert evidence_of(change).speed.low < speed < evidence_of(change).speed.high


def test_a_spread_between_runs_as_large_as_the_difference_is_inconclusive(runs: Runs) -> None:
    change = runs.several([1.0, 1.1, 0.95], [1.12, 1.0, 1.2])
    assert change.verdict == "inconclusive"
    assert evidence_of(change).speed.low < 1 < evidence_of(change).speed.high


def test_two_runs_per_side_have_a_wider_interval_than_four(runs: Runs) -> None:
    sides = ([1.0, 1.01], [1.1, 1.11]), ([1.0, 1.01] * 2, [1.1, 1.11] * 2)
    few, many = (evidence_of(runs.several(*side)).speed for side in sides)
    assert few.low < many.low < many.high < few.high


def test_a_side_of_one_run_is_given_the_spread_of_the_other_side_with_a_note(runs: Runs) -> None:
    change = runs.several([1.0, 1.01, 0.99, 1.005], [1.3])
    assert change.verdict == "slower"
    assert change.notes == (evidence_of(change).assumption,)
    assert change.notes[0].startswith("B has only one")


ARRAYS: dict[str, Any] = {
    "benchmark": "stream",
    "params": {"impl": "numba", "op": "add"},
    "figure": "bytes",
    "work": Work(bytes=1e9),
}
ON_A_HYPERVISOR = machine(cpu={"hypervisor": "KVM"})


@pytest.mark.parametrize(
    ("fields", "environment", "minutes_of_a", "minutes_of_b", "verdict"),
    [
        (ARRAYS, ON_A_HYPERVISOR, (0, 1, 2), (3, 4, 5), "inconclusive"),
        (ARRAYS, ON_A_HYPERVISOR, (3, 4, 5), (0, 1, 2), "inconclusive"),
        (ARRAYS, ON_A_HYPERVISOR, (0, 2, 4), (1, 3, 5), "slower"),
        (ARRAYS, ON_A_HYPERVISOR, (0, 3, 4), (1, 2, 5), "slower"),
        (ARRAYS, machine(), (0, 1, 2), (3, 4, 5), "slower"),
        (ARRAYS | {"device": "gpu"}, ON_A_HYPERVISOR, (0, 1, 2), (3, 4, 5), "slower"),
        ({}, ON_A_HYPERVISOR, (0, 1, 2), (3, 4, 5), "slower"),
    ],
)
def test_memory_on_a_virtual_machine_may_drift_between_sides_that_do_not_alternate(
    runs: Runs,
    fields: dict[str, Any],
    environment: Environment,
    minutes_of_a: tuple[int, ...],
    minutes_of_b: tuple[int, ...],
    verdict: str,
) -> None:
    sides = [
        [
            runs.stored([steady(median, started=NOW + timedelta(minutes=minute), **fields)], environment)
            for median, minute in zip(medians, minutes, strict=True)
        ]
        for medians, minutes in (((1.0, 1.005, 0.995), minutes_of_a), ((1.06, 1.065, 1.055), minutes_of_b))
    ]
    (change,) = compare(*sides).changes
    assert change.verdict == verdict
    assert bool(evidence_of(change).assumption) == (verdict == "inconclusive")
    assert evidence_of(change).speed.value == pytest.approx(1 / 1.06, rel=0.001)


def test_runs_without_any_spread_are_inconclusive_or_the_same(runs: Runs) -> None:
    constant = runs.several([1.0, 1.0, 1.0], [2.0, 2.0, 2.0])
    assert constant.verdict == "inconclusive"
    assert "slower" in str(constant.reason)
    assert runs.several([1.0, 1.0], [1.0, 1.0]).verdict == "same"


positive = st.lists(st.floats(min_value=0.1, max_value=10), min_size=2, max_size=6)


@given(positive, positive)
def test_exchanging_the_sides_inverts_the_evidence(a: list[float], b: list[float]) -> None:
    there, back = from_repetitions(a, b, "runs"), from_repetitions(b, a, "runs")
    assert there is not None
    assert back is not None
    assert there.shift == pytest.approx(-back.shift)
    assert there.p == pytest.approx(back.p)
    assert there.speed.low <= there.speed.value * (1 + 1e-12)
    assert there.freedom >= min(len(a), len(b)) - 1 - 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("deviation", [0.01, 0.03, 0.05])
def test_equal_speeds_are_called_different_at_most_once_in_twenty_points(deviation: float) -> None:
    generator = np.random.default_rng(1)
    wrong = 0
    for _ in range(1000):
        a, b = generator.lognormal(sigma=deviation, size=(2, 3)).tolist()
        evidence = from_repetitions(a, b, "runs")
        assert evidence is not None
        wrong += judge(evidence.speed, 0.03)[0] in ("faster", "slower")
    assert wrong <= 50


# One run per side.
@pytest.mark.parametrize("time_of_b", [0.5, 1.0, 1.1, 2.0])
def test_one_process_per_side_decides_nothing(runs: Runs, time_of_b: float) -> None:
    comparison = runs([measured(samples(1.0, seed=1))], [measured(samples(time_of_b, seed=2))])
    (change,) = comparison.changes
    assert (change.verdict, change.reason) == ("inconclusive", ONE_PROCESS)
    assert evidence_of(change).speed.value == pytest.approx(1 / time_of_b, rel=0.01)
    assert regressions(comparison, FailOn(0)) == ()
    assert "--rounds 3" in shown(comparison)


@pytest.mark.parametrize(
    ("rounds_of_b", "verdict"),
    [
        pytest.param([1.3, 1.31, 1.29, 1.3], "slower", id="beyond the assumed spread"),
        pytest.param([1.1, 1.11, 1.09, 1.1], "inconclusive", id="within it"),
        pytest.param([1.1, 1.9, 1.0, 1.3], "inconclusive", id="large spread"),
    ],
)
def test_repetitions_of_one_run_per_side_are_widened_by_the_assumed_spread(
    rounds_of_b: list[float], verdict: str
) -> None:
    change = compare_point([in_rounds([1.0, 1.01, 0.99, 1.0])], [in_rounds(rounds_of_b)], 0.03, include_noisy=True)
    assert change.verdict == verdict
    assert evidence_of(change).basis.startswith("4 and 4 repetitions")
    assert change.notes[0].startswith("a spread of 5%")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_three_samples_or_fewer_are_inconclusive(runs: Runs, count: int) -> None:
    change = runs.one([1.0] * count, [1.0] * count)
    assert change.verdict == "inconclusive"
    assert f"({count} and {count})" in str(change.reason)


def test_one_sample_in_each_of_several_runs_is_enough(runs: Runs) -> None:
    a, b = ([runs.stored([measured([seconds])]) for seconds in side] for side in ([1.0, 1.01, 0.99], [2.0, 2.02, 1.98]))
    assert compare(a, b).changes[0].verdict == "slower"


# The verdict on an interval.
def test_a_significant_difference_within_the_equivalence_is_inconclusive() -> None:
    verdict, reason = judge(Estimate(0.96, 0.985, 0.95, 0.975), 0.03)
    assert verdict == "inconclusive"
    assert "3.0 %" in str(reason)
    assert judge(Estimate(0.96, 0.985, 0.95, 0.975), 0.01) == ("slower", None)


@pytest.mark.parametrize("equivalence", [-0.01, 1.0, 3.0])
def test_an_equivalence_outside_0_to_1_raises_user_error(runs: Runs, equivalence: float) -> None:
    with pytest.raises(UserError, match="100 %"):
        runs([], [], equivalence=equivalence)


ratios = st.lists(st.floats(min_value=0.2, max_value=5), min_size=3, max_size=3).map(sorted)
shares = st.floats(min_value=0, max_value=0.5)


@given(ratios, shares)
def test_exchanging_the_sides_exchanges_slower_and_faster(bounds: list[float], equivalence: float) -> None:
    low, ratio, high = bounds
    verdict, reason = judge(Estimate(low, high, 0.95, ratio), equivalence)
    turned = Estimate(1 / high, 1 / low, 0.95, 1 / ratio)
    opposite = {"slower": "faster", "faster": "slower"}
    near = [abs(value * (1 - equivalence) ** side - 1) for value in bounds for side in (-1, 0, 1)]
    if min(near) > 1e-9:  # 1/x rounds
        assert judge(turned, equivalence)[0] == opposite.get(verdict, verdict)
    assert (reason is None) == (verdict != "inconclusive")
    if verdict == "slower":
        assert high < 1
        assert ratio < 1 - equivalence
    if verdict == "same":
        assert 1 - equivalence <= low <= high <= 1 / (1 - equivalence)


# Noisy records.
def test_a_noisy_side_is_inconclusive_and_no_regression_by_default(runs: Runs) -> None:
    a, b = repetitions([1.0, 1.01, 0.99]), repetitions([2.0, 2.02, 1.98], noise=[STEAL])
    comparison = runs(a, b)
    (change,) = comparison.changes
    assert (change.verdict, change.only_noisy) == ("inconclusive", True)
    assert any(STEAL in note and note.startswith("B ") for note in change.notes)
    assert regressions(comparison, FailOn(5)) == ()
    text = shown(comparison)
    assert STEAL in text
    assert "p <" not in text
    included = runs(a, b, include_noisy=True)
    assert included.changes[0].verdict == "slower"
    assert len(regressions(included, FailOn(5))) == 1


def test_a_drifting_side_is_inconclusive(runs: Runs) -> None:
    drifting = [1.0 + 0.01 * number for number in range(40)]
    change = runs.one(samples(1.0, seed=1), [seconds * 2 for seconds in drifting])
    assert (change.verdict, change.only_noisy) == ("inconclusive", True)


def test_a_noisy_training_run_among_several_is_left_out_with_a_note(runs: Runs) -> None:
    a = [runs.stored([trained(samples(median, spread=0.001), 0.9)]) for median in (1.0, 1.005, 0.995)]
    b = [runs.stored([trained(samples(median, spread=0.001), 0.9)]) for median in (1.0, 1.004)]
    b.append(runs.stored([trained(samples(1.8), 0.9, noise=[STEAL])]))
    (change,) = compare(a, b).changes
    assert change.verdict == "same"
    (note,) = change.notes
    assert note.startswith("B3 ")
    assert STEAL in note
    assert len(change.b) == 2


def test_a_noisy_kernel_run_among_several_is_compared_by_its_fastest_samples(runs: Runs) -> None:
    a = [runs.stored([steady(median)]) for median in (1.0, 1.005, 0.995)]
    b = [runs.stored([steady(median)]) for median in (1.0, 1.004)]
    waiting = samples(1.002, spread=0.001, count=10) + samples(3.0, spread=0.3, count=20)
    b.append(runs.stored([measured(waiting, noise=[STEAL])]))
    (change,) = compare(a, b).changes
    assert change.verdict == "same"
    (note,) = change.notes
    assert note.startswith("B3 ")
    assert STEAL in note
    assert len(change.b) == 3


# Notes and quality metrics.
def test_executions_with_different_work_are_compared_by_their_rates(runs: Runs) -> None:
    stream: dict[str, Any] = {"benchmark": "stream", "figure": "bytes", "params": {"kernel": "triad"}}
    a = measured(samples(1.0, seed=1), work=Work(bytes=1e9), **stream)
    b = measured(samples(2.0, seed=2), work=Work(bytes=2e9), **stream)
    (change,) = runs([a], [b]).changes
    assert evidence_of(change).speed.value == pytest.approx(1, abs=0.01)
    assert any("1e+09 bytes" in note and "2e+09" in note for note in change.notes)


@pytest.mark.parametrize(("metric", "known"), [("flops", Work(flops=1e9)), ("time", Work(items=100))])
def test_work_known_on_one_side_only_is_compared_by_time(runs: Runs, metric: str, known: Work) -> None:
    a = measured(samples(1.0, seed=1), figure=metric, work=known)
    (change,) = runs([a], [measured(samples(1.0, seed=2), figure=metric, work=None)]).changes
    assert evidence_of(change).speed.value == pytest.approx(1, abs=0.01)


def test_work_known_on_one_side_only_is_noted(runs: Runs) -> None:
    (change,) = runs([measured(samples(1.0, seed=1))], [measured(samples(1.0, seed=2), work=None)]).changes
    assert any("times are compared" in note for note in change.notes)


def test_different_timers_and_clocks_are_noted(runs: Runs) -> None:
    def observed(clock: float) -> Telemetry:
        gauges = {"gpu.sm_clock": Gauge(minimum=clock, median=clock, maximum=clock, unit="MHz")}
        return Telemetry(interval_s=0.5, gauges=gauges, counters={})

    a = measured(samples(1.0), device="gpu", telemetry=observed(1980))
    b = measured(samples(1.0), device="gpu", telemetry=observed(1600), timer="nvbench")
    (change,) = runs([a], [b]).changes
    timer, clock = change.notes[1:]
    assert "nvbench" in timer
    assert all(part in clock for part in ("gpu.sm_clock", "1980 MHz", "1600 MHz"))
    steady = measured(samples(1.0), device="gpu", telemetry=observed(1979))
    assert len(runs([a], [steady]).changes[0].notes) == 1


def test_quality_metrics_of_a_training_workload_are_printed(runs: Runs) -> None:
    comparison = runs([trained(samples(0.1), accuracy=0.9812)], [trained(samples(0.1), accuracy=0.9377)])
    (change,) = comparison.changes
    assert {name: (a.value, b.value) for name, (a, b) in change.qualities.items()} == {
        "test_accuracy": (0.9812, 0.9377)
    }
    assert "test_accuracy 0.9812 / 0.9377" in shown(comparison)


def test_a_quality_metric_is_printed_with_its_interval(runs: Runs) -> None:
    share = {"qualities": [Quality("test_accuracy", of="examples")], "data": Data("digits", 4500, 500)}
    sides = [trained(samples(0.1), accuracy, **share) for accuracy in (0.98, 0.94)]
    text = shown(runs([sides[0]], [sides[1]]))
    assert "test_accuracy 0.98 (0.964–0.989) /" in text
    assert "0.94 (0.916–0.958)" in text


def test_a_record_without_samples_is_inconclusive(runs: Runs) -> None:
    good = measured(samples(1.0))
    (change,) = runs([good], [good.model_copy(update={"timing": None})]).changes
    assert (change.verdict, change.evidence) == ("inconclusive", None)


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
    assert "failed (wrong answer)" in text
    assert text.index("n=65536") < text.index("failed (hung)") < text.index("skipped (too large)")
    assert "n=4096: only in A" in text
    assert "launch cpu: only in B" in text


def test_points_of_different_devices_and_backends_do_not_match(runs: Runs) -> None:
    a = [measured(samples(1.0)), trained(samples(0.1), 0.9, backend="tensorflow")]
    b = [measured(samples(1.0), device="gpu"), trained(samples(0.1), 0.9, backend="jax")]
    comparison = runs(a, b)
    assert comparison.changes == ()
    assert len(comparison.only_a) == len(comparison.only_b) == 2


def test_an_unfinished_run_is_noted(runs: Runs) -> None:
    comparison = runs([measured(samples(1.0))], [measured(samples(1.0))], status="interrupted")
    (note,) = comparison.notes
    assert "interrupted" in note
    assert note in shown(comparison)


def test_a_bound_is_left_out_if_the_side_has_estimates_and_decides_nothing_alone(runs: Runs) -> None:
    def bound(median: float) -> Record:
        found = steady(median)
        assert found.timing is not None
        return found.model_copy(update={"timing": found.timing.model_copy(update={"upper_bound": "2 of 30 clean"})})

    a = [runs.stored([steady(median)]) for median in (1.0, 1.005, 0.995)]
    b = [*(runs.stored([steady(median)]) for median in (1.0, 1.004)), runs.stored([bound(3.0)])]
    (change,) = compare(a, b).changes
    assert (change.verdict, len(change.b)) == ("same", 2)
    (alone,) = compare(a, b[2:]).changes
    assert (alone.verdict, alone.only_noisy) == ("inconclusive", True)
    bounds = [runs.stored([bound(3.0)]) for _ in range(2)]
    assert "≥ " in shown(compare(a, bounds))
    (row,) = document_of_comparison(compare(a, bounds), []).rows
    assert row.values["speed"] is None


@pytest.mark.parametrize(
    ("in_b", "verdict"), [("P-core", "slower"), ("E-core", "inconclusive"), (None, "inconclusive")]
)
def test_points_of_one_core_on_different_kinds_of_core_have_no_verdict(
    runs: Runs, in_b: str | None, verdict: str
) -> None:
    def side(medians: list[float], kind: str | None) -> list[Record]:
        return [one_core(measured(samples(median, seed=n)), kind) for n, median in enumerate(medians)]

    def one_core(record: Record, kind: str | None) -> Record:
        bound = replace(record.bound, cores="one")
        return record.model_copy(update={"bound": bound, "placement": Placement(core_kind=kind)})

    change = compare_point(side([1.0, 1.005, 0.995], "P-core"), side([2.0, 2.01, 1.99], in_b), 0.02)
    assert change.verdict == verdict
    assert (change.evidence is None) == (verdict == "inconclusive")
