"""Time course of samples: steady, drift, two speeds, and bursts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from accelbench.profiling.analysis.course import bursts, course, course_of, disturbances, epoch_boundaries
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


# One repetition.
@pytest.mark.parametrize("draw", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("n", [10, 40])
def test_independent_samples_of_any_distribution_are_steady(draw: Draw, n: int) -> None:
    rng, trials = np.random.default_rng(1), 200
    flagged = sum(course(draw(rng, n)).kind != "steady" for _ in range(trials))
    assert flagged <= 6  # with a rate of 1 %, more occur with a probability of 0.4 %


@pytest.mark.parametrize("end", [0.9, 1.1])
def test_a_trend_is_a_drift(end: float) -> None:
    found = course(np.linspace(1, end, 200) * noise(200))
    assert found.kind == "drifts"
    assert found.speeds == ()
    assert ("longer" if end > 1 else "shorter") in found.sentence


def test_a_significant_change_of_one_percent_is_no_drift() -> None:
    assert course(np.repeat([1.0, 1.01], 500) * noise(1000, spread=0.0001)).kind == "steady"


def test_one_change_of_speed_is_two_speeds() -> None:
    found = course(np.repeat([3.65e-3, 6.7e-3], [150, 50]) * noise(200, spread=1e-4))
    assert found.kind == "two speeds"
    assert [speed.seconds for speed in found.speeds] == pytest.approx([3.65e-3, 6.7e-3], rel=0.01)
    assert [speed.share for speed in found.speeds] == [0.75, 0.25]
    assert re.search(r"75% .* 3\.65 ms, 25% .* 6\.7 ms$", found.sentence)


def test_a_time_that_rounds_to_one_second_is_in_seconds() -> None:
    samples = np.repeat([0.9997, 1.8], 100) * noise(200, spread=1e-5)
    assert re.search(r"50% .* 1 s, 50% .* 1\.8 s$", course(samples).sentence)


def test_two_speeds_are_found_in_any_order_and_with_outliers() -> None:
    samples = np.repeat([1.0, 1.1], [140, 60]) * noise(200)
    samples[::50] *= 30
    assert course(np.random.default_rng(2).permutation(samples)).kind == "two speeds"


def test_a_tail_is_not_a_speed() -> None:
    samples = noise(200)
    samples[::20] *= 2
    assert course(samples).kind == "steady"


def test_two_values_within_the_clock_resolution_are_not_two_speeds() -> None:
    samples = np.tile([5.0e-6, 5.5e-6], 100)
    assert course(samples).kind == "two speeds"
    assert course(samples, resolution=1e-6).kind == "steady"


@pytest.mark.parametrize("n", [1, 2, 9, 500])
def test_constant_samples_are_steady(n: int) -> None:
    assert course([0.5] * n).kind == "steady"


@given(st.lists(st.floats(min_value=1e-9, max_value=1e4), min_size=1, max_size=60))
def test_every_course_but_steady_has_a_sentence(samples: list[float]) -> None:
    found = course(samples)
    assert bool(found.sentence) == (found.kind != "steady")
    assert len(found.speeds) == (2 if found.kind == "two speeds" else 0)
    assert sum(speed.share for speed in found.speeds) in (0, pytest.approx(1))


# Repetitions.
def test_repetitions_that_differ_by_chance_are_steady() -> None:
    rng, trials = np.random.default_rng(3), 100
    flagged = 0
    for _ in range(trials):
        samples = np.repeat(np.exp(0.05 * rng.standard_normal(5)), 30) * np.exp(0.005 * rng.standard_normal(150))
        flagged += course(samples, [30] * 5).kind != "steady"
    assert flagged <= 4  # with a rate of 1 %, more occur with a probability of 0.3 %


def test_a_trend_over_repetitions_is_a_drift() -> None:
    found = course(np.repeat([1, 1.05, 1.1, 1.15, 1.2], 20) * noise(100), [20] * 5)
    assert found.kind == "drifts"
    assert re.search(r"last repetition .*% longer", found.sentence)


def test_a_trend_within_each_repetition_is_a_drift() -> None:
    found = course(np.tile(np.linspace(1, 1.1, 30), 3) * noise(90), [30] * 3)
    assert found.kind == "drifts"
    assert "of each repetition" in found.sentence


def test_two_speeds_of_repetitions() -> None:
    found = course(np.repeat([1.0, 1.8, 1.01, 1.79, 1.005], 20) * noise(100, spread=0.001), [20] * 5)
    assert found.kind == "two speeds"
    assert [speed.share for speed in found.speeds] == [0.6, 0.4]
    assert re.search(r"60% of the repetitions took 1\b", found.sentence)


def test_two_speeds_must_occur_in_most_repetitions() -> None:
    samples = noise(90)
    samples[75:] *= 1.5
    assert course(samples, [30] * 3).kind != "two speeds"
    assert course(np.tile(samples[60:], 3), [30] * 3).kind == "two speeds"


# Invalid input.
@pytest.mark.parametrize("counts", [[1, 1], [4], [3, 0]])
def test_counts_that_do_not_add_up_are_refused(counts: list[int]) -> None:
    with pytest.raises(ValueError, match=r"^3 samples"):
        course([1.0, 1.0, 1.0], counts)


@pytest.mark.parametrize("wrong", [[], [0.0], [1.0, math.nan], [-1.0] * 30])
def test_invalid_samples_are_refused(wrong: list[float]) -> None:
    with pytest.raises(ValueError, match="finite number"):
        course(wrong)


# Records.
def test_disturbances_are_the_noise_then_the_course() -> None:
    quiet, drifting = noise(100), np.linspace(1, 1.2, 100)
    assert disturbances(measured(quiet)) == []
    noisy = measured(drifting).model_copy(update={"noise": ["steal: the hypervisor gave 3% of the CPU time to others"]})
    assert disturbances(noisy)[0].startswith("steal")
    assert disturbances(noisy)[1:] == [course(drifting).sentence]


def test_bursts_of_training_steps_are_no_disturbance_but_a_drift_is() -> None:
    bursts = np.tile([1.0, 1.0, 1.0, 2.0], 50) * noise(200)
    assert course_of(measured(bursts)).kind == "two speeds"
    assert course_of(measured(bursts, timer="steps")).kind == "steady"
    assert course_of(measured(np.repeat([1.0, 2.0], 100) * noise(200), timer="steps")).kind == "drifts"


def test_a_record_without_valid_samples_is_steady() -> None:
    assert course_of(record("matmul", timing=None)).kind == "steady"
    corrupt = measured(noise(3)).timing
    assert corrupt is not None
    corrupt = corrupt.model_copy(update={"samples": [0.0, 1.0, math.nan]})
    assert course_of(measured(noise(3)).model_copy(update={"timing": corrupt})).kind == "steady"


# Mean and median step.
def stepped(samples: list[float], epochs: list[list[float]]) -> Timing:
    timing = Timing(samples=samples, stop="epochs done", timer="steps", summary=summarize(samples))
    return timing.model_copy(update={"steady": steady_steps(epochs)})


def test_even_steps_are_no_bursts() -> None:
    steps = [0.01, 0.0105, 0.0101, 0.0099]
    assert bursts(stepped(steps, [steps])) is None
    assert epoch_boundaries(stepped(steps, [steps])) is None


def test_a_mean_step_above_the_median_is_a_burst() -> None:
    steps = [0.01, 0.01, 0.01, 0.05] * 10
    assert " 2 times " in str(bursts(stepped(steps, [steps])))


def test_a_mean_step_below_the_median_is_a_burst() -> None:
    steps = [0.01, 0.05, 0.05, 0.05] * 10
    assert " 0.8 times " in str(bursts(stepped(steps, [steps])))


def test_epoch_boundaries_are_no_bursts() -> None:
    epochs = [[0.05, 0.01, 0.01, 0.01]] * 5
    timing = stepped([step for epoch in epochs for step in epoch[1:]], epochs)
    assert bursts(timing) is None
    assert "take 50%" in str(epoch_boundaries(timing))


def test_a_kernel_has_no_bursts() -> None:
    samples = [1.0, 1.0, 5.0]
    timing = Timing(samples=samples, stop="time limit", timer="host", summary=summarize(samples))
    assert bursts(timing) is None
    assert epoch_boundaries(timing) is None
