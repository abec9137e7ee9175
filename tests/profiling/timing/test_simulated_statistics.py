from __future__ import annotations

from collections.abc import Callable

import pytest
from rich.console import Console

from tests.bench_self.bounds import Bound
from tests.bench_self.statistics import coverage_over_rounds, coverage_within, false_alarms

REPETITIONS = 150
CHANCE = 0.055
"""Three standard errors of a share of 5 % among so many repetitions."""


@pytest.mark.slow
@pytest.mark.parametrize("simulate", [coverage_within, coverage_over_rounds, false_alarms])
def test_intervals_cover_and_findings_are_rarely_false(simulate: Callable[[Console, int], list[Bound]]) -> None:
    for bound in simulate(Console(quiet=True), REPETITIONS):
        assert bound.found
        for found in bound.found:
            assert bound.at_least is None or found >= bound.at_least - CHANCE, bound.name
            assert bound.at_most is None or found <= bound.at_most + CHANCE, bound.name
