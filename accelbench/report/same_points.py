"""Points measured in several runs: the result of each run, and its speed relative to the first run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, isclose, log
from statistics import fmean

from accelbench.compare.change import PointChange, compare_point
from accelbench.compare.runs import EQUIVALENCE
from accelbench.output.format import UNKNOWN, digits, read
from accelbench.profiling.analysis.cost import cost
from accelbench.report.joined import Joined
from accelbench.report.rows import Row, trained_on
from accelbench.report.study import PlacedRow

ENTRIES_SHOWN = 1000
"""Maximum number of results shown; the CSV has all."""
ROUNDING = 5e-4
"""Relative difference below which two results are equal in three digits."""


@dataclass(frozen=True)
class SpeedRatio:
    """Speed relative to another run, as text."""

    value: str
    interval: str
    """Interval; empty if unknown."""
    notes: tuple[str, ...]
    """Caveats."""


@dataclass(frozen=True)
class PointInRun:
    """Result of a point in one run."""

    place: str
    """Label of the run, with the device if it is not the run's main device."""
    row: Row
    ratio: SpeedRatio | None
    """Speed relative to the first run with the point; None for that run itself."""
    compared: str = ""
    """Result that the ratio is of, as text; empty if it is the result of the row."""


@dataclass(frozen=True)
class SamePoint:
    """Point measured in several runs, on one or several devices."""

    name: str
    """Benchmark and values of its axes, without the device."""
    entries: tuple[PointInRun, ...]


@dataclass(frozen=True)
class SpeedMean:
    """Geometric mean of the speeds of a run relative to the first run."""

    of: str
    """Benchmark, or `kernels` or `trainings` for all of them."""
    overall: bool
    """Whether the mean is over all benchmarks of its kind."""
    place: str
    """Label of the other run."""
    value: float
    points: int
    """Number of points that are not noisy in both runs."""


@dataclass(frozen=True)
class SamePoints:
    """Points measured in more than one run."""

    base: str
    """Label of the first run, the baseline of the means."""
    means: tuple[SpeedMean, ...]
    shown: tuple[SamePoint, ...]
    more: int
    """Number of further such points, which are not shown."""
    single: int
    """Number of points measured in one run only."""


def same_points(joined: Joined) -> SamePoints:
    """Return the points measured in several of the runs, in the order of the runs."""
    found = _by_point(joined)
    several = [(name, placed) for name, placed in found.items() if len(placed) > 1]
    shown = several[: max(1, ENTRIES_SHOWN // len(joined.runs))]
    points = tuple(SamePoint(name, tuple(_entries(placed))) for name, placed in shown)
    return SamePoints(
        joined.labels[0], speed_means(joined), points, len(several) - len(shown), len(found) - len(several)
    )


def speed_means(joined: Joined) -> tuple[SpeedMean, ...]:
    """Return the geometric means of the speeds of each run relative to the first run."""
    return tuple(_means(joined.labels[0], [placed for placed in _by_point(joined).values() if len(placed) > 1]))


def _by_point(joined: Joined) -> dict[str, list[PlacedRow]]:
    """Return the results of each point by its name without the device, in the order of the runs."""
    found: dict[str, list[PlacedRow]] = {}
    for place, row in joined.rows:
        point = row.record.point
        found.setdefault(f"{point.benchmark} {point.details}".strip(), []).append((place, row))
    return found


def _means(base: str, points: Sequence[Sequence[PlacedRow]]) -> Iterator[SpeedMean]:
    """Yield the means of each run over all kernels and over all training workloads, then by benchmark.

    The ranking by geometric means does not depend on the baseline (Fleming and Wallace, CACM 29 (1986), 218).
    """
    speeds: dict[tuple[str, str], list[float]] = {}
    benchmarks: dict[str, set[str]] = {}
    for (first_place, first), *others in points:
        if first_place != base or first.disturbed:
            continue
        kind, benchmark = "trainings" if first.training else "kernels", first.record.point.benchmark
        benchmarks.setdefault(kind, set()).add(benchmark)
        for place, row in others:
            costs = cost(first.record, first.record.figure), cost(row.record, first.record.figure)
            if costs[0] and costs[1] and not row.disturbed:
                for of in (benchmark, kind):
                    speeds.setdefault((of, place), []).append(log(costs[0] / costs[1]))
    for (of, place), found in sorted(speeds.items(), key=lambda item: item[0][0] in benchmarks):
        if of not in benchmarks or len(benchmarks[of]) > 1:
            alone = any(names == {of} for names in benchmarks.values())
            yield SpeedMean(of, of in benchmarks or alone, place, exp(fmean(found)), len(found))


def _entries(placed: Sequence[PlacedRow]) -> Iterator[PointInRun]:
    (first_place, first), *others = placed
    changes = [compare_point([first.record], [row.record], EQUIVALENCE) for _, row in others]
    compared = [change.compared for change in changes if change.compared]
    yield PointInRun(first_place, first, None, _compared(first, compared[0].a, compared[0].unit) if compared else "")
    for (place, row), change in zip(others, changes, strict=True):
        of = change.compared
        yield PointInRun(place, row, _ratio(first, row, change), _compared(row, of.b, of.unit) if of else "")


def _compared(row: Row, value: float, unit: str) -> str:
    """Return the compared result as text; empty if it equals the row's result."""
    record = row.record
    if unit == record.unit and isclose(value, record.rate() or 0.0, rel_tol=ROUNDING):
        return ""
    return record.bound_sign("time" if unit == "s" else None) + read(value, unit).quantity


def _ratio(first: Row, other: Row, change: PointChange) -> SpeedRatio:
    notes = tuple(_notes(first, other, change))
    if first.record.bound_sign() or other.record.bound_sign():
        return SpeedRatio(UNKNOWN, "", notes)  # the rates above two bounds may have any ratio
    if change.evidence:
        speed = change.evidence.speed
        return SpeedRatio(f"× {digits(speed.value)}", f"{digits(speed.low)}–{digits(speed.high)}", notes)
    costs = cost(first.record, first.record.figure), cost(other.record, first.record.figure)
    return SpeedRatio(f"× {digits(costs[0] / costs[1])}" if costs[0] and costs[1] else UNKNOWN, "", notes)


def _notes(first: Row, other: Row, change: PointChange) -> Iterator[str]:
    if change.only_noisy:
        yield "inconclusive: noisy run" if change.evidence else "no interval: noisy run"
    elif not change.evidence and change.reason:
        yield f"no interval: {change.reason}"
    if other.record.data and other.record.data != first.record.data:
        yield trained_on(other.record.data)
