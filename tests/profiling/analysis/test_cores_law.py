"""Number of cores that a device needs, from known laws with noise."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from accelbench.profiling.analysis.cores_law import NEAR, Cores, Law, fit, needed_cores

COUNTS = (1, 2, 4, 6, 8, 12, 16)


def measured(law: Law, counts: tuple[int, ...] = COUNTS, noise: float = 0.02, seed: int = 0) -> dict[int, list[float]]:
    rng = np.random.default_rng(seed)
    return {n: list(law.rate(n) * np.exp(noise * rng.standard_normal(9))) for n in counts}


@pytest.mark.parametrize("seed", range(5))
def test_the_knee_of_a_law_with_a_limit_is_found(seed: int) -> None:
    law = Law(one_core=100, serial=0.02, limit=520)
    found = needed_cores(measured(law, seed=seed), cores=2)
    assert found.answer == "reached"
    assert found.knee_low is not None
    assert found.knee_high is not None
    assert found.knee_low <= law.knee() <= found.knee_high
    assert found.lost == pytest.approx(1 - law.rate(2) / 520, abs=0.03)
    assert found.lost_low is not None
    assert found.lost_high is not None
    assert found.lost_low <= 1 - law.rate(2) / 520 <= found.lost_high


def test_the_sentence_contains_the_knee_the_cores_and_the_loss() -> None:
    found = needed_cores(measured(Law(100, 0.0, 600), noise=0.001), cores=2)
    assert re.search(r"\b6 cores; .* 2 \(67%", found.sentence())


def test_nothing_is_lost_if_one_core_is_enough() -> None:
    found = needed_cores(measured(Law(100, 0.0, 90)))
    assert (found.answer, found.knee, found.knee_high) == ("reached", 1, 1)
    assert found.lost == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("serial", [0.0, 0.1, 0.3])
def test_the_knee_of_a_growing_rate_is_not_reached(serial: float) -> None:
    found = needed_cores(measured(Law(100, serial, math.inf), noise=0.003), cores=2)
    assert (found.answer, found.knee, found.limit) == ("not reached", None, None)
    assert re.search(r"more than 16 cores; .* 2 \(at least \d+%", found.sentence())


def test_the_interval_contains_unmeasured_numbers_of_cores() -> None:
    found = needed_cores(measured(Law(100, 0.0, 200), counts=(1, 4, 8), noise=0.001))
    assert (found.knee_low, found.knee_high) == (2, 4)


def test_two_numbers_of_cores_are_inconclusive() -> None:
    found = needed_cores({1: [100.0], 2: [150.0]})
    assert found.answer == "inconclusive"
    assert found.reason is not None
    assert re.search(r"\b2 .* 3\b", found.reason)


def test_a_rate_that_falls_with_more_cores_is_inconclusive() -> None:
    found = needed_cores({1: [100.0], 2: [150.0], 4: [80.0], 8: [40.0]})
    assert found.answer == "inconclusive"
    assert found.misfit is not None
    assert f"{found.misfit:.0%}" in found.sentence()


def test_samples_that_vary_too_much_are_inconclusive() -> None:
    found = needed_cores(measured(Law(100, 0.0, 350), counts=(1, 2, 4), noise=0.3, seed=1))
    assert found.answer == "inconclusive"


@pytest.mark.parametrize("samples", [{}, {1: []}, {0: [1.0], 1: [1.0]}, {1: [0.0]}, {1: [math.nan]}, {1: [math.inf]}])
def test_invalid_samples_are_an_error(samples: dict[int, list[float]]) -> None:
    with pytest.raises(ValueError, match="finite samples"):
        needed_cores(samples)


def test_the_answer_is_reproducible_and_can_be_stored() -> None:
    samples = measured(Law(100, 0.05, 400))
    assert needed_cores(samples) == needed_cores(dict(reversed(samples.items())))
    found = needed_cores(samples)
    assert Cores.model_validate_json(found.model_dump_json()) == found


@settings(deadline=None)
@given(st.floats(1e-3, 1e6), st.floats(0, 1), st.floats(1.0, 50.0))
def test_the_knee_is_the_smallest_sufficient_number_of_cores(one_core: float, serial: float, factor: float) -> None:
    law = Law(one_core, serial, one_core * factor)
    knee = law.knee()
    assert law.rate(knee) >= 0.95 * law.saturated * (1 - 1e-6)
    assert knee == 1 or law.rate(knee - 1) < 0.95 * law.saturated * (1 + 1e-6)


@settings(deadline=None, max_examples=30)
@given(st.floats(0.1, 1e6), st.integers(0, 20), st.floats(1.5, 6.0))
@example(1.0, 11, 5.8125)
def test_the_fit_recovers_a_law_without_noise(one_core: float, percent: int, factor: float) -> None:
    law = Law(one_core, percent / 100, one_core * factor)
    counts = np.array(COUNTS, dtype=float)
    best = fit(counts, np.array([law.rate(n) for n in counts]))[0]
    assert [best.rate(n) for n in counts] == pytest.approx(
        # A limit that only the last point shows, by less than this, is indistinguishable from none.
        [law.rate(n) for n in counts],
        rel=1 / NEAR - 1,
    )
