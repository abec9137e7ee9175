from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from accelbench.profiling.analysis.course import bursts, course, course_of, disturbances, epoch_turns
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.timing import Timing
from accelbench.profiling.timing.statistics import summarize
from accelbench.profiling.timing.steady import steady_steps
from tests.fixtures.report_records import record

Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]
SHAPES: dict[str, Draw] = {
    "normal": lambda rng, n: 1 + 0.02 * rng.standard_normal(n),
    "uniform": lambda rng, n: 1 + 0.1 * rng.random(n),
    "skewed": lambda rng, n: 1 + 0.05 * rng.exponential(size=n),
    "very skewed": lambda rng, n: rng.lognormal(size=n),
}


def noise(n: int, seed: int = 0, spread: float = 0.005) -> NDArray[np.float64]:
    return np.exp(spread * np.random.default_rng(seed).standard_normal(n))


def measured(samples: NDArray[np.float64], **changes: object) -> Record:
    fields = {"samples": samples.tolist(), "stop": "steady noise", "timer": "host", "summary": summarize(samples)}
    return record("matmul", timing=Timing.model_validate(fields | changes))


# One round.
@pytest.mark.parametrize("draw", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("n", [10, 40])
def test_independent_samples_are_steady_whatever_their_shape(draw: Draw, n: int) -> None:
    rng, trials = np.random.default_rng(1), 200
    flagged = sum(course(draw(rng, n)).kind != "steady" for _ in range(trials))
    assert flagged <= 6  # at 1 % the chance of more is 0.4 %


@pytest.mark.parametrize("end", [0.9, 1.1])
def test_samples_that_become_slower_or_faster_drift(end: float) -> None:
    found = course(np.linspace(1, end, 200) * noise(200))
    assert found.kind == "drifts"
    assert found.speeds == ()
    assert ("longer" if end > 1 else "shorter") in found.sentence


def test_a_change_of_a_percent_is_no_drift_however_certain() -> None:
    assert course(np.repeat([1.0, 1.01], 500) * noise(1000, spread=0.0001)).kind == "steady"


def test_a_speed_that_changes_once_is_two_speeds_and_both_are_named() -> None:
    found = course(np.repeat([3.65e-3, 6.7e-3], [150, 50]) * noise(200, spread=1e-4))
    assert found.kind == "two speeds"
    assert [speed.seconds for speed in found.speeds] == pytest.approx([3.65e-3, 6.7e-3], rel=0.01)
    assert [speed.share for speed in found.speeds] == [0.75, 0.25]
    assert found.sentence == "it has two speeds: 75% of the samples took 3.65 ms, 25% took 6.7 ms"


def test_a_speed_just_below_a_second_is_said_in_seconds() -> None:
    samples = np.repeat([0.9997, 1.8], 100) * noise(200, spread=1e-5)
    assert "50% of the samples took 1 s, 50% took 1.8 s" in course(samples).sentence


def test_two_speeds_are_found_in_any_order_and_beside_far_outliers() -> None:
    samples = np.repeat([1.0, 1.1], [140, 60]) * noise(200)
    samples[::50] *= 30
    assert course(np.random.default_rng(2).permutation(samples)).kind == "two speeds"


def test_a_tail_is_no_speed() -> None:
    samples = noise(200)
    samples[::20] *= 2
    assert course(samples).kind == "steady"


def test_two_ticks_of_a_coarse_clock_are_no_two_speeds() -> None:
    samples = np.tile([5.0e-6, 5.5e-6], 100)
    assert course(samples).kind == "two speeds"
    assert course(samples, resolution=1e-6).kind == "steady"


@pytest.mark.parametrize("n", [1, 2, 9, 500])
def test_constant_samples_are_steady(n: int) -> None:
    assert course([0.5] * n).kind == "steady"


@given(st.lists(st.floats(min_value=1e-9, max_value=1e4), min_size=1, max_size=60))
def test_a_course_that_is_not_steady_is_said(samples: list[float]) -> None:
    found = course(samples)
    assert bool(found.sentence) == (found.kind != "steady")
    assert len(found.speeds) == (2 if found.kind == "two speeds" else 0)
    assert sum(speed.share for speed in found.speeds) in (0, pytest.approx(1))


# Rounds.
def test_rounds_that_differ_as_processes_do_are_steady() -> None:
    rng, trials = np.random.default_rng(3), 100
    flagged = 0
    for _ in range(trials):
        samples = np.repeat(np.exp(0.05 * rng.standard_normal(5)), 30) * np.exp(0.005 * rng.standard_normal(150))
        flagged += course(samples, [30] * 5).kind != "steady"
    assert flagged <= 4  # at 1 % the chance of more is 0.3 %


def test_rounds_that_become_slower_one_by_one_drift() -> None:
    found = course(np.repeat([1, 1.05, 1.1, 1.15, 1.2], 20) * noise(100), [20] * 5)
    assert found.kind == "drifts"
    assert "longer in the last round than in the first" in found.sentence


def test_rounds_that_each_become_slower_drift_though_their_medians_agree() -> None:
    found = course(np.tile(np.linspace(1, 1.1, 30), 3) * noise(90), [30] * 3)
    assert found.kind == "drifts"
    assert "the last third of each round" in found.sentence


def test_rounds_of_two_speeds_are_named_as_rounds() -> None:
    found = course(np.repeat([1.0, 1.8, 1.01, 1.79, 1.005], 20) * noise(100, spread=0.001), [20] * 5)
    assert found.kind == "two speeds"
    assert [speed.share for speed in found.speeds] == [0.6, 0.4]
    assert "60% of the rounds took 1" in found.sentence


def test_two_speeds_in_one_round_of_three_are_outvoted() -> None:
    samples = noise(90)
    samples[75:] *= 1.5
    assert course(samples, [30] * 3).kind != "two speeds"
    assert course(np.tile(samples[60:], 3), [30] * 3).kind == "two speeds"


# Bad input.
@pytest.mark.parametrize("counts", [[1, 1], [4], [3, 0]])
def test_rounds_that_do_not_add_up_are_refused(counts: list[int]) -> None:
    with pytest.raises(ValueError, match="are not the 3 that there are"):
        course([1.0, 1.0, 1.0], counts)


@pytest.mark.parametrize("wrong", [[], [0.0], [1.0, math.nan], [-1.0] * 30])
def test_what_is_no_set_of_durations_is_refused(wrong: list[float]) -> None:
    with pytest.raises(ValueError, match="positive and finite"):
        course(wrong)


# Records.
def test_disturbances_are_the_noise_first_and_then_the_course() -> None:
    quiet, drifting = noise(100), np.linspace(1, 1.2, 100)
    assert disturbances(measured(quiet)) == []
    noisy = measured(drifting).model_copy(update={"noise": ["steal: the hypervisor gave 3% of the CPU time to others"]})
    assert disturbances(noisy)[0].startswith("steal")
    assert disturbances(noisy)[1:] == [course(drifting).sentence]


def test_steps_that_come_in_bursts_are_no_disturbance_but_a_drift_is_one() -> None:
    bursts = np.tile([1.0, 1.0, 1.0, 2.0], 50) * noise(200)
    assert course_of(measured(bursts)).kind == "two speeds"
    assert course_of(measured(bursts, timer="steps")).kind == "steady"
    assert course_of(measured(np.repeat([1.0, 2.0], 100) * noise(200), timer="steps")).kind == "drifts"


def test_a_record_without_usable_samples_has_no_course() -> None:
    assert course_of(record("matmul", timing=None)).kind == "steady"
    damaged = measured(noise(3)).timing
    assert damaged is not None
    damaged = damaged.model_copy(update={"samples": [0.0, 1.0, math.nan]})
    assert course_of(measured(noise(3)).model_copy(update={"timing": damaged})).kind == "steady"


# The mean step against the median.
def stepped(samples: list[float], epochs: list[list[float]]) -> Timing:
    timing = Timing(samples=samples, stop="epochs done", timer="steps", summary=summarize(samples))
    return timing.model_copy(update={"steady": steady_steps(epochs)})


def test_even_steps_are_no_bursts() -> None:
    steps = [0.01, 0.0105, 0.0101, 0.0099]
    assert bursts(stepped(steps, [steps])) is None
    assert epoch_turns(stepped(steps, [steps])) is None


def test_input_that_comes_all_at_once_is_told_by_the_mean_beside_the_median() -> None:
    steps = [0.01, 0.01, 0.01, 0.05] * 10
    assert bursts(stepped(steps, [steps])) == "the steps come in bursts: mean step 2 times the median"


def test_mostly_slow_steps_are_bursts_too() -> None:
    steps = [0.01, 0.05, 0.05, 0.05] * 10
    assert bursts(stepped(steps, [steps])) == "the steps come in bursts: mean step 0.8 times the median"


def test_the_turns_of_epochs_are_told_apart_from_bursts() -> None:
    epochs = [[0.05, 0.01, 0.01, 0.01]] * 5
    timing = stepped([step for epoch in epochs for step in epoch[1:]], epochs)
    assert bursts(timing) is None
    assert str(epoch_turns(timing)).startswith("the turns of epochs take 50% of the time")


def test_what_is_not_measured_by_steps_has_no_bursts() -> None:
    samples = [1.0, 1.0, 5.0]
    timing = Timing(samples=samples, stop="time limit", timer="host", summary=summarize(samples))
    assert bursts(timing) is None
    assert epoch_turns(timing) is None
