"""Steady steps: the rate follows from the total time, independent of the distribution of step times."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.timing import Timing
from accelbench.profiling.records.work import Work
from accelbench.profiling.timing.statistics import summarize
from accelbench.profiling.timing.steady import BLOCKS, ENOUGH_EPOCHS, join_repetitions, steady_steps

Epochs = list[list[float]]
SECONDS = st.floats(1e-6, 1e3)
EPOCHS = st.lists(st.lists(SECONDS, max_size=40), min_size=1, max_size=20).filter(any)
ITEMS = 32


def record(epochs: Epochs) -> Record:
    steps = [step for epoch in epochs for step in epoch]
    timing = Timing(
        samples=steps, stop="epochs done", timer="steps", summary=summarize(steps), steady=steady_steps(epochs)
    )
    point, started = Point("b", "cpu", {}), datetime(2025, 1, 1, tzinfo=UTC)
    work = Work(items=ITEMS, item="rows")
    return Record(point=point, figure="items", status="measured", started=started, work=work, timing=timing)


@given(EPOCHS)
def test_the_rate_times_the_total_time_is_the_items(epochs: Epochs) -> None:
    rate, low, high = record(epochs).rate_interval() or (0, 0, 0)
    steps = [step for epoch in epochs for step in epoch]
    assert rate * sum(steps) == pytest.approx(ITEMS * len(steps))
    assert 0 <= low <= rate * (1 + 1e-12)
    assert rate <= high * (1 + 1e-12)


@given(EPOCHS)
def test_the_time_of_an_item_is_one_over_the_rate_of_items(epochs: Epochs) -> None:
    found = record(epochs)
    assert (found.rate("time") or 0) * (found.rate("items") or 0) == pytest.approx(1)


@given(EPOCHS)
def test_every_step_is_in_a_block(epochs: Epochs) -> None:
    found = steady_steps(epochs)
    assert sum(block.steps for block in found.blocks) == found.steps == sum(map(len, epochs))
    assert sum(block.seconds for block in found.blocks) == pytest.approx(found.seconds)
    assert found.ci_low <= found.mean * (1 + 1e-12)
    assert found.mean <= found.ci_high * (1 + 1e-12)


def test_many_epochs_are_blocks_and_few_are_divided() -> None:
    assert [block.steps for block in steady_steps([[1.0] * 5] * ENOUGH_EPOCHS).blocks] == [5] * ENOUGH_EPOCHS
    assert [block.steps for block in steady_steps([[1.0] * 30] * 2).blocks] == [60 // BLOCKS] * BLOCKS
    assert [block.steps for block in steady_steps([[1.0] * 3]).blocks] == [1] * 3


def test_a_single_block_has_no_confidence() -> None:
    found = steady_steps([[0.5]])
    assert (found.ci_low, found.mean, found.ci_high, found.ci_confidence) == (0.5, 0.5, 0.5, 0.0)
    with pytest.raises(ValueError, match="steady"):
        steady_steps([[]])


def test_the_interval_by_hand() -> None:
    # Ten blocks of one step: the mean is 1, its standard error 0.1·√(10/9)/√10, and t with 9 degrees is 2.262.
    found = steady_steps([[0.9, 1.1] * 5])
    half = 2.262157 * 0.1 / 3
    assert (found.ci_low, found.ci_high) == (pytest.approx(np.exp(-half)), pytest.approx(np.exp(half)))


@pytest.mark.parametrize("burst", [4, 32])
def test_the_interval_covers_the_mean_of_bursts_with_its_confidence(burst: int) -> None:
    rng = np.random.default_rng(3)
    mean = (1 + (burst - 1) * 0.01) / burst
    covered = 0
    for _ in range(200):
        steps = np.where((np.arange(600) + rng.integers(burst)) % burst == 0, 1.0, 0.01)
        found = steady_steps([(steps * rng.normal(1, 0.1, 600)).tolist()])
        covered += found.ci_low <= mean <= found.ci_high
    assert covered >= 186


def test_repetitions_have_the_same_weight_independent_of_their_steps() -> None:
    repetitions = [steady_steps([[seconds] * steps]) for seconds, steps in ((1.0, 500), (1.1, 50), (1.3, 50))]
    joined = join_repetitions(repetitions)
    assert [block.steps for block in joined.blocks] == [500, 50, 50]
    assert (joined.steps, joined.seconds, joined.mean) == (600, pytest.approx(620), pytest.approx(1.1))
    assert joined.ci_low < 1.0 < 1.3 < joined.ci_high, "the interval of three repetitions is wide"
    assert join_repetitions(repetitions[:1]) == repetitions[0]


def test_equal_repetitions_have_the_uncertainty_of_their_steps() -> None:
    one = steady_steps([[1.0, 1.4] * 3, [0.6, 1.0] * 3])
    joined = join_repetitions([one, one, one])
    assert joined.mean == pytest.approx(one.mean)
    assert np.log(joined.ci_high / joined.ci_low) == pytest.approx(np.log(one.ci_high / one.ci_low) / 3**0.5)
