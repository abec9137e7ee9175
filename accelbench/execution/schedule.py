"""Schedule of a run: the first repetition of every point, then the second of every point, and so on.

Interleaving spreads drift over time (clocks, other jobs, room temperature) over all points. A new process for each
repetition samples the variation between processes (placement of pages and threads).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from accelbench.profiling.records.point import Point


class ScheduledRun(NamedTuple):
    """One repetition of one point, measured by one new process."""

    point: Point
    round: int
    """Number of the repetition, from 1."""


def schedule(plan: Sequence[Point], rounds_of: Callable[[Point], int], seed: int) -> list[ScheduledRun]:
    """Return every repetition of every point, interleaved, with the points of each repetition shuffled by the seed.

    Training workloads follow the kernels of the same repetition: they take minutes, and the template process is ended
    before them. If every point has one repetition, the order of the plan is kept.
    """
    last = max(map(rounds_of, plan), default=1)
    if last == 1:
        return [ScheduledRun(point, 1) for point in plan]
    runs = []
    for number in range(1, last + 1):
        points = [point for point in plan if rounds_of(point) >= number]
        random.Random(f"{seed} {number}").shuffle(points)
        points.sort(key=lambda point: point.backend is not None)
        runs += [ScheduledRun(point, number) for point in points]
    return runs
