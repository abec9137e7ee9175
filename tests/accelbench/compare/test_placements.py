"""Comparison of points with two speeds from process to process."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from accelbench.compare.placements import DIFFERENT, find_levels, from_placements
from accelbench.compare.runs import compare
from tests.fixtures.compare_runs import NOW, Runs, evidence_of, repetitions, run

FAST, SLOW = 1.0, 1.3
JITTER = (1.0, 1.004, 0.997, 1.002, 0.995, 1.006)


def near(levels: list[float]) -> list[float]:
    """Return the levels with a small spread."""
    return [level * JITTER[number % len(JITTER)] for number, level in enumerate(levels)]


@pytest.mark.parametrize("draw", ["normal", "skewed", "heavy-tailed"])
@pytest.mark.parametrize("count", [6, 9, 18, 40])
def test_one_level_is_seldom_taken_for_two(draw: str, count: int) -> None:
    rng = np.random.default_rng(5)
    logs = {
        "normal": rng.standard_normal((200, count)),
        "skewed": rng.exponential(size=(200, count)),
        "heavy-tailed": rng.standard_t(3, size=(200, count)),
    }[draw]
    assert sum(find_levels(costs.tolist()) is not None for costs in np.exp(0.05 * logs)) <= 3


def test_two_levels_are_found_and_a_small_difference_is_none() -> None:
    levels = find_levels(near([FAST, SLOW] * 4))
    assert levels is not None
    assert np.exp([levels.fast, levels.slow]) == pytest.approx([FAST, SLOW], rel=0.01)
    assert find_levels([1.0, 1.0, 1.0, 1.01, 1.01, 1.01]) is None
    assert find_levels(near([FAST, SLOW] * 2)) is None


@pytest.mark.parametrize(("slower", "verdict"), [(1.0, "same"), (1.1, "slower"), (1 / 1.1, "faster")])
def test_processes_are_compared_with_those_of_the_same_placement(runs: Runs, slower: float, verdict: str) -> None:
    a = near([FAST, FAST, SLOW, FAST, SLOW, FAST])
    b = [slower * each for each in near([SLOW, SLOW, FAST, SLOW, SLOW, FAST])]
    change = runs.several(a, b)
    assert change.verdict == verdict
    assert evidence_of(change).speed.value == pytest.approx(1 / slower, rel=0.01)
    assert "4 and 2 fast, 2 and 4 slow" in evidence_of(change).basis


def test_two_levels_that_are_the_two_sides_are_a_change_of_speed(runs: Runs) -> None:
    change = runs.several(near([FAST] * 4), near([SLOW] * 4))
    assert change.verdict == "slower"
    assert evidence_of(change).basis == "4 and 4 runs"


def test_one_slow_process_does_not_make_a_change_of_speed_two_placements(runs: Runs) -> None:
    of_a = [[3.001, 3.053, 3.046], [3.075, 3.294, 2.988], [3.042, 3.034, 3.065]]
    of_b = [[3.353, 3.291, 3.313], [3.335, 3.288, 3.274], [3.285, 3.308, 3.276]]
    past = [2.983, 2.988, 3.033, 3.061, 3.088, 3.014, 3.074, 3.04, 3.065]
    assert from_placements(of_a, of_b, past) is None
    assert from_placements(of_b, of_a, past) is None
    sides = [[runs.stored(repetitions(medians)) for medians in side] for side in (of_a, of_b)]
    (change,) = compare(*sides).changes
    assert change.verdict == "slower"
    assert evidence_of(change).speed.value == pytest.approx(3.046 / 3.291, rel=0.005)


def test_a_level_that_one_side_hardly_has_is_no_evidence_on_it() -> None:
    mostly_fast, slow = [near([FAST] * 8 + [SLOW])], [near([SLOW] * 9)]
    assert from_placements(mostly_fast, slow, near([FAST, SLOW] * 5)) == DIFFERENT


def test_sides_in_different_placements_of_past_processes_are_inconclusive(runs: Runs, tmp_path: Path) -> None:
    def compared(b: float) -> str:
        change = runs.several(near([FAST] * 3), near([b] * 3), history=past)
        assert (change.verdict == "inconclusive") == bool(evidence_of(change).undecided)
        return change.verdict

    past = [
        run(tmp_path / f"past-{number}", repetitions(near([FAST, SLOW, FAST])), created=NOW + timedelta(hours=number))
        for number in range(4)
    ]
    assert compared(SLOW) == "inconclusive"
    assert compared(1.15) == "inconclusive"
    assert compared(FAST) == "same"
    assert compared(1.08) == "slower"


def test_repetitions_of_one_run_per_side_are_compared_by_placement(runs: Runs) -> None:
    a, b = near([FAST, SLOW, FAST, SLOW, FAST, FAST]), near([SLOW, SLOW, FAST, SLOW, FAST, SLOW])
    (change,) = runs(repetitions(a), repetitions([1.25 * each for each in b])).changes
    assert change.verdict == "slower"
    assert evidence_of(change).speed.value == pytest.approx(0.8, rel=0.01)
    assert evidence_of(change).assumption


def test_one_process_at_each_level_of_each_side_is_no_evidence() -> None:
    past = near([FAST, SLOW] * 5)
    assert isinstance(from_placements([[FAST], [SLOW]], [[FAST]], past), str)
    assert from_placements([[FAST]] * 3, [[FAST]] * 3, past) is None
