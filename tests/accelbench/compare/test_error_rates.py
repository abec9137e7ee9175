"""Verdicts on simulated pairs of runs of the same code, and of code that is 10 % slower.

The processes of a point differ by 1.7 to 4.7 %, as measured on quiet machines, and their samples by 0.3 %. Runs have
three repetitions, as by default.
"""

from __future__ import annotations

import numpy as np
import pytest

from accelbench.compare.change import PointChange, adjusted, compare_point
from accelbench.compare.runs import EQUIVALENCE
from accelbench.profiling.records.record import Record
from tests.fixtures.compare_runs import MATMUL, in_rounds

PAIRS, ROUNDS = 20, 3
SPREAD = (0.017, 0.047)


class Machine:
    """Source of simulated runs."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def pair(self, points: int, runs: int, slower: float, levels: tuple[float, ...] = (1.0,)) -> list[PointChange]:
        """Return the changes of a pair with `runs` runs a side; a process has one of the levels by chance."""
        changes = []
        for number in range(points):
            spread = self._rng.uniform(*SPREAD)
            sides = [[self._run(number, spread, time, levels) for _ in range(runs)] for time in (1.0, slower)]
            changes.append(compare_point(*sides, EQUIVALENCE))
        return adjusted(changes)

    def _run(self, number: int, spread: float, seconds: float, levels: tuple[float, ...]) -> Record:
        medians = seconds * self._rng.choice(levels, ROUNDS) * self._rng.lognormal(sigma=spread, size=ROUNDS)
        return in_rounds(medians.tolist(), params={**MATMUL, "n": number})


def definite(pairs: list[list[PointChange]]) -> int:
    """Return the number of pairs with a point that is called faster or slower."""
    return sum(any(change.verdict in ("faster", "slower") for change in changes) for changes in pairs)


@pytest.mark.parametrize(("runs", "points"), [(1, 5), (3, 5)])
def test_the_same_code_is_called_different_in_at_most_one_pair_of_twenty(runs: int, points: int) -> None:
    machine = Machine(seed=42)
    assert definite([machine.pair(points, runs, 1.0) for _ in range(PAIRS)]) <= 1


def test_the_same_code_with_two_speeds_is_called_different_in_at_most_one_pair_of_twenty() -> None:
    machine = Machine(seed=42)
    assert definite([machine.pair(1, 3, 1.0, (1.0, 1.4)) for _ in range(PAIRS)]) <= 1


def test_a_slowdown_of_ten_percent_is_found_in_18_pairs_of_twenty_with_three_runs_a_side() -> None:
    machine = Machine(seed=42)
    found = [machine.pair(1, 3, 1.1) for _ in range(PAIRS)]
    assert sum(changes[0].verdict == "slower" for changes in found) >= 18
