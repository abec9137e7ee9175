"""Tests of the decision which rank is slow, on simulated step times."""

from __future__ import annotations

import numpy as np
import pytest

from accelbench.profiling.measure.script.slow_rank import PARTS, Delay, slow_rank

STEP_S = 0.1
SHARES = {"input": 0.15, "forward": 0.25, "backward": 0.45, "optimizer": 0.15}
STEPS, TRIALS = 400, 100


def simulated(ranks: int, part: str | None) -> list[Delay | None]:
    """Return the decisions of all trials; in one rank, a part takes 5 % longer.

    The noise is lognormal with a standard deviation of 6 % and a correlation of 0.3 between successive steps, 3 % of
    the steps are interrupted for as long as they take on average, the speed of all ranks drifts by 5 %, and each part
    of each rank has a speed of its own that differs by 0.2 %.
    """
    rng = np.random.default_rng(ranks)
    noise = rng.normal(0, 0.06 * np.sqrt(1 - 0.3**2), (TRIALS, ranks, len(PARTS), STEPS)).astype(np.float32)
    for step in range(1, STEPS):
        noise[..., step] += 0.3 * noise[..., step - 1]
    interrupted = rng.random(noise.shape, np.float32) < 0.03
    factors = np.exp(noise)
    factors[interrupted] += rng.exponential(1.0, np.count_nonzero(interrupted))
    factors *= 1 + 0.05 * np.sin(np.arange(STEPS) / 60 + rng.uniform(0, 6, (TRIALS, 1, 1, 1)))
    factors *= 1 + rng.normal(0, 0.002, (TRIALS, ranks, len(PARTS), 1))
    factors *= STEP_S * np.array([SHARES[name] for name in PARTS])[:, None]
    if part:
        factors[np.arange(TRIALS), np.arange(TRIALS) % ranks, PARTS.index(part)] *= 1.05
    return [
        slow_rank({rank: dict(zip(PARTS, trial[rank], strict=True)) for rank in range(ranks)}, STEP_S)
        for trial in factors
    ]


@pytest.mark.parametrize("ranks", [2, 8])
@pytest.mark.parametrize("part", PARTS)
def test_a_delay_of_5_percent_is_found_in_95_of_100_trials(ranks: int, part: str) -> None:
    found = simulated(ranks, part)
    right = [each for trial, each in enumerate(found) if each and (each.rank, each.part) == (trial % ranks, part)]
    assert len(right) >= 95
    assert np.mean([each.relative for each in right]) == pytest.approx(0.05, abs=0.01)
    covered = [each.low <= 0.05 * SHARES[part] * STEP_S <= each.high for each in right]
    assert np.mean(covered) > 0.85


@pytest.mark.parametrize("ranks", [2, 8])
def test_no_rank_is_named_in_95_of_100_trials_without_a_delay(ranks: int) -> None:
    assert simulated(ranks, None).count(None) >= 95


def test_a_delay_without_relevance_for_a_step_is_not_named() -> None:
    times = {rank: {"input": np.array([1e-6, 1.01e-6] * 50) * (1 + rank)} for rank in range(2)}
    assert slow_rank(times, STEP_S) is None
    found = slow_rank(times, 1e-5)
    assert found
    assert (found.rank, found.part) == (1, "input")


def test_ranks_with_too_few_steps_are_not_compared() -> None:
    times = {rank: {"forward": [0.1 * (1 + rank)] * 10} for rank in range(2)}
    assert slow_rank(times, STEP_S) is None
