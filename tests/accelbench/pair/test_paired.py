"""Ratio of two speeds from pairs: known results and simulated noise."""

from __future__ import annotations

from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import wilcoxon

from accelbench.pair.paired import (
    CONFIDENCE,
    LEAST_PAIRS,
    LOOK_CONFIDENCE,
    LOOKS,
    half_width,
    pairs_of,
    signed_rank_distribution,
    speed_ratio,
)

TRIALS = 400
MANY_RATIOS = st.lists(st.floats(0.2, 5.0), min_size=1, max_size=40)


def test_the_null_distribution_of_three_differences() -> None:
    assert (signed_rank_distribution(3) * 8).tolist() == [1, 1, 1, 2, 1, 1, 1]


@pytest.mark.parametrize("pairs", [8, 12, 18])
def test_the_interval_contains_the_ratios_that_the_signed_rank_test_accepts(pairs: int) -> None:
    logs = np.random.default_rng(pairs).normal(0.1, 0.05, pairs)
    speed = speed_ratio(np.exp(logs).tolist())
    for end, inwards in ((np.log(speed.low), 1e-9), (np.log(speed.high), -1e-9)):
        assert wilcoxon(logs - end - inwards, method="exact").pvalue > 1 - LOOK_CONFIDENCE
        assert wilcoxon(logs - end + inwards, method="exact").pvalue <= 1 - LOOK_CONFIDENCE


def test_eight_pairs_are_the_fewest_that_reach_the_confidence_of_a_look() -> None:
    assert LEAST_PAIRS == 8
    assert speed_ratio([1.0] * 8).confidence >= LOOK_CONFIDENCE
    assert speed_ratio([1.0] * 7).confidence == pytest.approx(1 - 2 / 2**7)


@given(MANY_RATIOS)
def test_exchanging_the_sides_inverts_the_ratio(ratios: list[float]) -> None:
    speed, inverse = speed_ratio(ratios), speed_ratio([1 / ratio for ratio in ratios])
    assert [inverse.low, inverse.value, inverse.high] == pytest.approx([1 / speed.high, 1 / speed.value, 1 / speed.low])


@given(MANY_RATIOS)
def test_estimate_interval_and_ratios_are_nested(ratios: list[float]) -> None:
    speed = speed_ratio(ratios)
    ends = [min(ratios), speed.low, speed.value, speed.high, max(ratios)]
    assert all(low <= high * (1 + 1e-12) for low, high in pairwise(ends))


@pytest.mark.parametrize("ratios", [[], [1.0, 0.0], [1.0, -1.0], [float("nan")], [float("inf")]])
def test_invalid_ratios_raise_value_error(ratios: list[float]) -> None:
    with pytest.raises(ValueError, match="finite"):
        speed_ratio(ratios)


def test_linear_and_quadratic_drift_cancel_in_two_blocks() -> None:
    order = "".join(chain(*pairs_of(0), *pairs_of(1)))
    assert order == "ABBABAAB"
    for power in (0, 1, 2):
        at = {letter: sum(time**power for time, side in enumerate(order) if side == letter) for letter in "AB"}
        assert at["A"] == at["B"]


def test_an_outlier_hardly_changes_the_ratio() -> None:
    quiet = np.exp(np.random.default_rng(0).normal(0, 0.01, 18)).tolist()
    assert speed_ratio([*quiet[:-1], 3.0]).value == pytest.approx(speed_ratio(quiet).value, abs=0.005)


def independent(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Normal noise of 3 % between processes."""
    return rng.normal(0, 0.03, count)


def skewed(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Exponential delays of 3 % in the mean."""
    return rng.exponential(0.03, count)


def spiky(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Exponential delays of 40 % in the mean in 15 % of the measurements."""
    return rng.normal(0, 0.01, count) + (rng.random(count) < 0.15) * rng.exponential(0.4, count)


def two_speeds(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Alternating stretches at full and half speed."""
    return rng.normal(0, 0.01, count) + 0.69 * (np.cumsum(rng.random(count) < 0.1) % 2)


def random_walk(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Random walk of the speed in steps of 1 %."""
    return rng.normal(0, 0.02, count) + np.cumsum(rng.normal(0, 0.01, count))


def autocorrelated(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Noise with an autocorrelation of 0.9."""
    times, state = np.empty(count), rng.normal(0, 0.03)
    for index in range(count):
        times[index] = state
        state = 0.9 * state + rng.normal(0, 0.03 * (1 - 0.9**2) ** 0.5)
    return times + rng.normal(0, 0.01, count)


MACHINES = [independent, skewed, spiky, two_speeds, random_walk, autocorrelated]


def ratios_on(machine, rng: np.random.Generator, speed: float) -> list[float]:  # type: ignore[no-untyped-def]
    """Return the ratios of the maximum number of pairs, for B `speed` times as fast as A under the machine's noise."""
    times = machine(rng, 2 * LOOKS[-1])
    times = {"A": times, "B": times - np.log(speed)}
    ratios, position = [], 0
    for block in range(LOOKS[-1] // 2):
        for pair in pairs_of(block):
            seconds = {letter: times[letter][position + place] for place, letter in enumerate(pair)}
            ratios.append(float(np.exp(seconds["A"] - seconds["B"])))
            position += 2
    return ratios


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.__name__)
def test_all_looks_together_have_the_stated_confidence(machine) -> None:  # type: ignore[no-untyped-def]
    rng, true, held, held_at_the_end = np.random.default_rng(1), 0.97, 0, 0
    for _ in range(TRIALS):
        ratios = ratios_on(machine, rng, true)
        looks = [speed_ratio(ratios[:pairs]) for pairs in LOOKS]
        last = next((look for look in looks if half_width(look) <= 0.015), looks[-1])
        held += all(look.low <= true <= look.high for look in looks)
        held_at_the_end += last.low <= true <= last.high
    chance = 2 * (CONFIDENCE * (1 - CONFIDENCE) / TRIALS) ** 0.5
    assert held / TRIALS >= CONFIDENCE - chance
    assert held_at_the_end / TRIALS >= CONFIDENCE
