"""The series of one point on one machine: its speed in every run, the levels it had, and how it spreads around them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from math import exp, log

import numpy as np

from accelbench.history.change_points import change_points
from accelbench.history.past import PastRun
from accelbench.history.spread import LEAST_RUNS, Spread, spread_of_levels
from accelbench.profiling.analysis.cost import by_fastest, cost
from accelbench.profiling.analysis.course import disturbances
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import Figure

SECONDS_PER_DAY = 86400


@dataclass(frozen=True)
class SeriesPoint:
    """Result of the point in one run."""

    run_id: str
    when: datetime
    log_speed: float
    """The logarithm of the work per second, in units of the point's figure."""
    record: Record


@dataclass(frozen=True)
class LevelChange:
    """Permanent change of the speed, with its ratio to the speed before."""

    when: datetime
    run_id: str
    """The first run of the new level."""
    speed: float


@dataclass(frozen=True)
class Trend:
    """A slow change of the speed, which is more than chance, over the days since the last step."""

    speed: float
    """The speed at the end over the speed at the beginning."""
    days: float


@dataclass(frozen=True)
class PointSeries:
    """Results of one point on one machine in all runs without disturbances at it, oldest first."""

    machine: str
    point: Point
    entries: tuple[SeriesPoint, ...]
    left_out: tuple[SeriesPoint, ...]
    """The runs that are left out because they were disturbed at this point."""

    @property
    def disturbed(self) -> int:
        """Return the number of runs that are left out because they were disturbed."""
        return len(self.left_out)

    @cached_property
    def levels(self) -> tuple[tuple[SeriesPoint, ...], ...]:
        """Return the entries by the levels that the change points part them into."""
        bounds = [0, *change_points([entry.log_speed for entry in self.entries]), len(self.entries)]
        return tuple(self.entries[begin:end] for begin, end in pairwise(bounds))

    @property
    def steps(self) -> list[LevelChange]:
        """Return where the level changed, by how much."""
        return [
            LevelChange(after[0].when, after[0].run_id, exp(_middle(after) - _middle(before)))
            for before, after in pairwise(self.levels)
        ]

    @cached_property
    def spread(self) -> Spread | None:
        """Return the spread from run to run around the levels; None where there are too few runs to tell."""
        return spread_of_levels([[entry.log_speed for entry in level] for level in self.levels])

    @cached_property
    def compared_spread(self) -> Spread | None:
        """Return the spread by which runs are compared; None where there are too few runs to tell.

        Where they are compared by their fastest samples, which disturbances hardly touch, disturbed runs count.
        """
        fast = [entry for entry in self.left_out if entry.record.timing and by_fastest(entry.record.timing)]
        several = tuple(sorted((*self.entries, *fast), key=lambda entry: entry.when))
        return replace(self, entries=several, left_out=()).spread if fast else self.spread

    @property
    def trend(self) -> Trend | None:
        """Return the trend of the last level; None where none is seen or there are too few runs.

        The slope is Theil and Sen's, the median over all pairs, and counts where its 95 % interval excludes zero (Sen,
        "Estimates of the regression coefficient based on Kendall's tau", JASA 63 (1968)).
        """
        level = self.levels[-1]
        if len(level) < LEAST_RUNS:
            return None
        days = [(entry.when - level[0].when).total_seconds() / SECONDS_PER_DAY for entry in level]
        if len(set(days)) == 1:
            return None
        from scipy.stats import theilslopes  # costs a second to import

        slope, _, low, high = theilslopes([entry.log_speed for entry in level], days)
        return Trend(exp(slope * days[-1]), days[-1]) if low > 0 or high < 0 else None


def series_of(runs: Iterable[PastRun]) -> list[PointSeries]:
    """Return a series for each point, machine and figure, in the order of machines and of the runs' points.

    Records of no use, which were not measured or have no rate, are not in it.
    """
    found: dict[tuple[str, str, Figure], list[tuple[SeriesPoint, bool]]] = {}
    for run in runs:
        for record in run.records:
            if seconds := cost(record):
                entry = SeriesPoint(run.run_id, record.started, -log(seconds), record)
                key = (run.machine, str(record.point), record.figure)
                found.setdefault(key, []).append((entry, bool(disturbances(record))))
    return [
        PointSeries(
            machine,
            entries[0][0].record.point,
            tuple(entry for entry, disturbed in entries if not disturbed),
            tuple(entry for entry, disturbed in entries if disturbed),
        )
        for (machine, _, _), entries in sorted(found.items(), key=lambda item: item[0][0])
    ]


def _middle(level: tuple[SeriesPoint, ...]) -> float:
    return float(np.median([entry.log_speed for entry in level]))
