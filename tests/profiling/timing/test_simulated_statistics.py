"""Coverage of intervals and false alarms, by simulation."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rich.console import Console

from tests.bench_self.bounds import Bound
from tests.bench_self.statistics import (
    COVERED,
    coverage_beside_bursts,
    coverage_over_repetitions,
    coverage_within,
    false_alarms,
)

REPETITIONS = 150
CHANCE = 0.055
"""Three standard errors of a share of 5 % among `REPETITIONS`."""


@pytest.mark.slow
@pytest.mark.parametrize("simulate", [coverage_within, coverage_over_repetitions, false_alarms])
def test_intervals_cover_and_false_alarms_are_rare(
    simulate: Callable[[Console, int], list[Bound]],
) -> None:
    for bound in simulate(Console(quiet=True), REPETITIONS):
        assert bound.found
        for found in bound.found:
            assert bound.at_least is None or found >= bound.at_least - CHANCE, bound.name
            assert bound.at_most is None or found <= bound.at_most + CHANCE, bound.name


def test_clean_samples_beside_bursts_cover_and_bounds_are_true() -> None:
    """320 measurements for each length of a sample: with mean bursts of 1 ms to 1 s, for 5 to 60 % of the time."""
    bounds = coverage_beside_bursts(Console(quiet=True), 20)
    assert len(bounds) > 2
    for bound in bounds:
        assert bound.found[0] >= COVERED, bound.name
