"""Tests of experiments on a training: speedup, interval, and effect on the verdict."""

from __future__ import annotations

import pytest

from accelbench.profiling.analysis.experiments import FIELD, checked, compare_steps, invalid
from accelbench.profiling.records.bottleneck import Bottleneck, Bound, Cause, StepsWithout
from accelbench.profiling.timing.steady import steady_steps


def steps_without(speedup: float, half: float = 0.05) -> StepsWithout:
    return StepsWithout(
        steps=20,
        mean=0.1,
        ci_low=0.099,
        ci_high=0.101,
        speedup=speedup,
        speedup_low=speedup * (1 - half),
        speedup_high=speedup * (1 + half),
        same_random_numbers=True,
    )


@pytest.mark.parametrize(
    ("bound", "cause", "speedup", "expected", "confirmed"),
    [
        ("input-bound", "input", 3.0, "input-bound", True),
        ("input-bound", "input", 1.0, None, False),
        ("input-bound", "input", 1.1, "input-bound", None),
        ("device-bound", "input", 1.0, "device-bound", None),
        ("device-bound", "input", 3.0, None, False),
        ("cpu-quota-bound", "input", 3.0, "cpu-quota-bound", None),
        ("communication-bound", "communication", 3.0, "communication-bound", True),
        ("communication-bound", "communication", 1.0, None, False),
        ("dispatch-bound", "dispatch", 3.0, "dispatch-bound", True),
        ("dispatch-bound", "communication", 1.0, "dispatch-bound", None),
    ],
)
def test_an_experiment_confirms_or_withdraws_a_verdict(
    bound: Bound, cause: Cause, speedup: float, expected: Bound | None, confirmed: bool | None
) -> None:
    verdict = checked(Bottleneck(bound=bound, help="more"), {cause: steps_without(speedup)})
    assert (verdict.bound, verdict.confirmed) == (expected, confirmed)
    assert getattr(verdict, FIELD[cause]) == steps_without(speedup)
    assert (verdict.help is None) == (expected is None)
    assert (verdict.reason is None) == (expected is not None)


def test_an_experiment_with_slower_steps_has_no_result() -> None:
    verdict = Bottleneck(bound="input-bound")
    experiments: dict[Cause, StepsWithout | None] = {"input": steps_without(0.7), "communication": None}
    assert checked(verdict, experiments) == verdict
    assert len(invalid(experiments)) == 1
    assert invalid({"input": steps_without(0.95)}) == []


def test_without_an_experiment_the_verdict_is_unchanged() -> None:
    verdict = Bottleneck(bound="input-bound")
    assert checked(verdict, {"input": None}) == verdict


def test_the_speedup_is_the_ratio_of_the_mean_steps_with_both_uncertainties() -> None:
    measured = steady_steps([[0.1 + 0.001 * (number % 3) for number in range(60)]])
    found = compare_steps(measured, [[0.05 + 0.002 * (number % 2) for number in range(20)]])
    assert found
    assert found.steps == 20
    assert found.speedup == pytest.approx(measured.mean / 0.051)
    assert found.speedup_low < found.speedup < found.speedup_high
    of_measured, of_found = measured.ci_high / measured.mean, found.ci_high / found.mean
    assert max(of_measured, of_found) < found.speedup_high / found.speedup < of_measured * of_found


def test_the_interval_of_repeated_experiments_covers_their_differences() -> None:
    measured = steady_steps([[0.1 + 0.001 * (number % 3) for number in range(60)]])
    medians = [0.05, 0.04, 0.06, 0.01, 0.051]
    found = compare_steps(measured, [[seconds] * 10 for seconds in medians] + [[]])
    assert found
    assert found.steps == 50
    assert found.mean == pytest.approx(0.05)
    assert found.ci_low < 0.04 < 0.06 < found.ci_high
    assert found.speedup_low < measured.mean / 0.06 < measured.mean / 0.04 < found.speedup_high
