"""Series of one point on one machine: its speed in every run, its levels, and its spread around them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from math import exp, log

import numpy as np

from accelbench.history.change_points import MOST_FIGURES, change_points
from accelbench.history.past import PastRun
from accelbench.history.spread import LEAST_RUNS, Spread, spread_of_levels
from accelbench.profiling.analysis.cost import by_fastest, cost, costs_of_processes
from accelbench.profiling.analysis.course import disturbances
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import MainMetric

SECONDS_PER_DAY = 86400


@dataclass(frozen=True)
class SeriesPoint:
    """Result of the point in one run."""

    run_id: str
    when: datetime
    log_speed: float
    """Logarithm of the work per second, in the units of the point's metric."""
    record: Record


@dataclass(frozen=True)
class LevelChange:
    """Permanent change of the speed, with its ratio to the speed before."""

    when: datetime
    run_id: str
    """First run of the new level."""
    speed: float


@dataclass(frozen=True)
class Trend:
    """Significant slow change of the speed over the days since the last change of level."""

    speed: float
    """Ratio of the speed at the end to the speed at the beginning."""
    days: float


@dataclass(frozen=True)
class PointSeries:
    """Results of one point on one machine in all runs, oldest first."""

    machine: str
    point: Point
    entries: tuple[SeriesPoint, ...]
    """Results that are not noisy."""
    left_out: tuple[SeriesPoint, ...]
    """Noisy results, which are left out of the levels."""

    @property
    def disturbed(self) -> int:
        """Return the number of noisy results."""
        return len(self.left_out)

    @cached_property
    def levels(self) -> tuple[tuple[SeriesPoint, ...], ...]:
        """Return the entries, split into levels at the change points."""
        bounds = [0, *change_points([entry.log_speed for entry in self.entries]), len(self.entries)]
        return tuple(self.entries[begin:end] for begin, end in pairwise(bounds))

    @property
    def steps(self) -> list[LevelChange]:
        """Return the changes of level."""
        return [
            LevelChange(after[0].when, after[0].run_id, exp(_middle(after) - _middle(before)))
            for before, after in pairwise(self.levels)
        ]

    @cached_property
    def spread(self) -> Spread | None:
        """Return the spread between runs around the levels; None with fewer than `LEAST_RUNS` runs."""
        return spread_of_levels([[entry.log_speed for entry in level] for level in self.levels])

    @cached_property
    def compared_spread(self) -> Spread | None:
        """Return the spread between runs for comparisons; None with fewer than `LEAST_RUNS` runs.

        It includes noisy runs that are compared by their fastest samples, which noise hardly affects; bounds are
        left out.
        """
        timings = [(entry, entry.record.timing) for entry in self.left_out]
        fast = [entry for entry, timing in timings if timing and by_fastest(timing) and not timing.upper_bound]
        several = tuple(sorted((*self.entries, *fast), key=lambda entry: entry.when))
        return replace(self, entries=several, left_out=()).spread if fast else self.spread

    @property
    def process_costs(self) -> list[float]:
        """Return the cost of each process since the last change of level."""
        latest = self.levels[-1]
        found = [each for entry in latest for each in costs_of_processes(entry.record, exp(-entry.log_speed))]
        return found[-MOST_FIGURES:]

    @property
    def trend(self) -> Trend | None:
        """Return the trend of the last level; None if it is not significant or has fewer than `LEAST_RUNS` runs.

        The slope is the Theil–Sen estimate, the median over all pairs; it is significant if its 95 % interval excludes
        zero (Sen, "Estimates of the regression coefficient based on Kendall's tau", JASA 63 (1968)).
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
    """Return a series for each machine, point and metric, sorted by machine and then in the order of the runs' points.

    Records without a rate are left out.
    """
    found: dict[tuple[str, str, MainMetric], list[tuple[SeriesPoint, bool]]] = {}
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
