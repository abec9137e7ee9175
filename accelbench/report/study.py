"""What a training benchmark shows, as the published studies have it: run time and quality against an axis that its
points sweep (units, layers, batch, devices), with every device and backend of the run side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from accelbench.format import plain
from accelbench.report.rows import Group, Row, params_text, varying_axes
from accelbench.report.sweep_plot import lines
from profiling.records.record import Record

LEAST_VALUES = 2
SWEEPS = 3
"""Of one benchmark at most: those of the axes that take the most values."""
CHOICES = 8
"""Choices of the other axes that a sweep has at most, each once per device and backend."""


@dataclass(frozen=True)
class Measure:
    """What is shown against the axis."""

    title: str
    unit: str
    of: Callable[[Record], float | None]
    deviation: Callable[[Record], float | None] = lambda record: None
    """The standard deviation over the repeats of the training, where there were any."""

    def points(self, line: Line) -> list[tuple[int, float, float]]:
        """Axis, value and deviation of the points whose value is a number; the deviation is NaN where there is none."""
        found = [(place, self.of(record), self.deviation(record)) for place, record in line.points]
        return [(x, y, math.nan if sd is None else sd) for x, y, sd in found if y is not None and math.isfinite(y)]


@dataclass(frozen=True)
class Line:
    """Points that differ in the swept axis alone."""

    where: str
    """The device and, where the benchmark ran on several, the backend."""
    choice: str
    """The values of the other axes that vary."""
    points: tuple[tuple[int, Record], ...]

    @property
    def swept(self) -> bool:
        return len({value for value, _ in self.points}) >= LEAST_VALUES


@dataclass(frozen=True)
class Sweep:
    """A benchmark's lines against one axis."""

    benchmark: str
    axis: str
    measures: tuple[Measure, ...]
    """Run time, then quality where there is one."""
    lines: tuple[Line, ...]
    left_out: int
    """Choices of the other axes for which there is no room."""

    @property
    def places(self) -> list[str]:
        return list(dict.fromkeys(line.where for line in self.lines))

    @property
    def choices(self) -> list[str]:
        return list(dict.fromkeys(line.choice for line in self.lines))

    @property
    def repeated(self) -> bool:
        """Whether a quality is the mean of several trainings."""
        found = (deviation for m in self.measures for line in self.lines for _, _, deviation in m.points(line))
        return any(map(math.isfinite, found))


@dataclass(frozen=True)
class Study:
    """A training benchmark on all devices and backends of the run."""

    benchmark: str
    places: tuple[str, ...]
    """The devices and, where there are several, backends."""
    common: str
    """What all its points share."""
    sweeps: tuple[Sweep, ...]


def make_studies(groups: Iterable[Group]) -> list[Study]:
    """A study of each training benchmark whose points sweep a numeric axis."""
    benchmarks: dict[str, list[Row]] = {}
    for group in groups:
        benchmarks.setdefault(group.benchmark, []).extend(row for row in group.rows if row.training)
    studies = [_study(benchmark, rows) for benchmark, rows in benchmarks.items()]
    return [study for study in studies if study.sweeps]


def _study(benchmark: str, rows: Sequence[Row]) -> Study:
    time, quality = _time(rows), _quality(rows)
    rows = [row for row in rows if 0 < (time.of(row.record) or 0) < math.inf]
    places = _places(rows)
    varying = varying_axes(rows)
    common = [axis for row in rows[:1] for axis in row.record.point.values if axis not in varying]
    values = {axis: {v for row in rows if isinstance(v := row.record.point.values.get(axis), int)} for axis in varying}
    sweeps = []
    for axis in sorted(varying, key=lambda axis: -len(values[axis])):
        found = list(_lines(places, axis, varying))
        if any(line.swept for line in found):
            chosen = _choose(found)
            drawn = tuple(line for line in found if line.choice in chosen)
            measures = (time, quality) if quality and any(map(quality.points, drawn)) else (time,)
            left_out = len({line.choice for line in found}) - len(chosen)
            sweeps.append(Sweep(benchmark, axis, measures, drawn, left_out))
    text = " ".join(params_text(row.record, common) for row in rows[:1])
    return Study(benchmark, tuple(places), text, tuple(sweeps[:SWEEPS]))


def _time(rows: Iterable[Row]) -> Measure:
    """A training's time; the rate where points train on different amounts of data, whose times do not compare."""
    records = [row.record for row in rows]
    if len({record.data and record.data.train for record in records}) <= 1:
        return Measure("time of the training", "s", _training)
    item = next((record.work.item for record in records if record.work), "items")
    return Measure(plain(f"{item} per second"), "", lambda record: record.rate("items"))


def _training(record: Record) -> float | None:
    """Seconds of one of the repeated trainings, without compilation, which long trainings make up for."""
    metrics, trainings = record.metrics, record.data.trainings if record.data else 1
    if "training" not in metrics:
        return None
    compilation = metrics["compile"].value if "compile" in metrics else 0.0
    return metrics["training"].value / trainings - compilation


def _quality(rows: Iterable[Row]) -> Measure | None:
    """The quality that the benchmark is judged by; None where it declares none."""
    headlines = (quality for row in rows for quality in row.record.qualities if quality.headline)
    headline = next(headlines, None)
    if headline is None:
        return None

    def value(of: str | None) -> Callable[[Record], float | None]:
        return lambda record: record.metrics[of].value if of in record.metrics else None

    return Measure(plain(headline.name).replace("_", " "), "", value(headline.name), value(headline.deviation))


def _places(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows by device and, where there are several, backend."""
    several = len({row.record.point.backend for row in rows}) > 1
    places: dict[str, list[Row]] = {}
    for row in rows:
        where = f"{row.record.point.device} {row.record.point.backend}" if several else row.record.point.device
        places.setdefault(plain(where), []).append(row)
    return places


def _lines(places: Mapping[str, Sequence[Row]], axis: str, varying: Sequence[str]) -> Iterator[Line]:
    """A line per place and choice of the other axes; of a place that has no line, its single points."""
    for where, rows in places.items():
        found = [Line(where, choice, tuple(points)) for choice, points in lines(rows, axis, varying).items()]
        yield from [line for line in found if line.swept] or found


def _choose(found: Sequence[Line]) -> list[str]:
    """The choices of the other axes, or of too many, those that have a line, evenly through them."""
    choices = list(dict.fromkeys(line.choice for line in found))
    if len(choices) <= CHOICES:
        return choices
    swept = list(dict.fromkeys(line.choice for line in found if line.swept))
    count = min(CHOICES, len(swept))
    return [swept[round(place * (len(swept) - 1) / max(1, count - 1))] for place in range(count)]
