"""The order in which a run measures: the first round of every point, then the second of every point, and so on.

What changes with time (clocks, neighbours, the room's temperature) then falls on all points and not on one, and what
changes between processes (where pages and threads lie) is seen, as each turn has a process of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from accelbench.profiling.records.point import Point


class Turn(NamedTuple):
    """One round of one point: what a fresh process measures."""

    point: Point
    round: int
    """The number of the round, from 1."""


def schedule(plan: Sequence[Point], rounds_of: Callable[[Point], int], seed: int) -> list[Turn]:
    """Return every round of every point, round by round, each round's points shuffled by the seed.

    Trainings follow the kernels of their round: they take minutes, and what imports for kernels is ended for them.
    Where no point has a second round there is nothing to interleave, and the plan's order stays.
    """
    last = max(map(rounds_of, plan), default=1)
    if last == 1:
        return [Turn(point, 1) for point in plan]
    turns = []
    for number in range(1, last + 1):
        points = [point for point in plan if rounds_of(point) >= number]
        random.Random(f"{seed} {number}").shuffle(points)
        points.sort(key=lambda point: point.backend is not None)
        turns += [Turn(point, number) for point in points]
    return turns
