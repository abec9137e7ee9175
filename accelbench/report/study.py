"""Trainings as the published studies show them: run time and quality against an axis that the points sweep.

Such an axis is units, layers, batch or devices. Every device, backend and run stands side by side, and so do the models
that were trained on the same data, are judged by the same quality and sweep the same axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, isfinite

from accelbench.profiling.records.record import Record
from accelbench.report.rows import Row, lines, params_text, source_of, varying_axes
from accelbench.report.study_measures import StudyLine, StudyPoint, StudyQuantity, quality_of, time_of

SWEEPS = 3
"""The sweeps shown of one benchmark at most: those of the axes that take the most values."""
CHOICES = 8
"""The choices of model and other axes that a sweep has at most, each once per device, backend and run."""
DASHED = 5
"""The devices, backends and runs that dashes tell apart; where there are more, they tell so many choices apart."""

PlacedRow = tuple[str, Row]
"""Label of the device or run, and the row."""


@dataclass(frozen=True)
class StudySweep:
    """Lines of one benchmark, or of several on the same data, against one axis."""

    benchmarks: tuple[str, ...]
    axis: str
    measures: tuple[StudyQuantity, ...]
    """The run time, then the quality where there is one."""
    lines: tuple[StudyLine, ...]
    left_out: int
    """The number of choices of the other axes for which there is no room."""

    @property
    def axis_in_words(self) -> str:
        """Return what the drawing is against: `number of units`, `batch`."""
        words = self.axis.replace("_", " ")
        return f"number of {words}" if words.endswith("s") else words

    @property
    def heading(self) -> str:
        """Return what is drawn against what: `Time of the training and test accuracy against the number of units`."""
        what = " and ".join(measure.title for measure in self.measures)
        return f"{what[:1].upper()}{what[1:]} against the {self.axis_in_words}"

    @property
    def places(self) -> list[str]:
        return list(dict.fromkeys(line.where for line in self.lines))

    @property
    def choices(self) -> list[str]:
        return list(dict.fromkeys(line.choice for line in self.lines))

    @property
    def bars(self) -> list[str]:
        """Return what the bars mean, in words, a text for each measure that has any."""
        return [m.bar for m in self.measures if any(isfinite(value.low) for value in self._values(m))]

    @property
    def compiled(self) -> bool:
        """Return whether the time with compilation is known of a point."""
        return any(isfinite(value.with_compilation) for m in self.measures for value in self._values(m))

    def _values(self, measure: StudyQuantity) -> Iterator[StudyPoint]:
        for line in self.lines:
            yield from measure.values(line)


@dataclass(frozen=True)
class Study:
    """A training benchmark, or several that share the data, on all devices, backends and runs."""

    benchmarks: tuple[str, ...]
    places: tuple[str, ...]
    """The devices or runs and, where there are several, backends."""
    common: str
    """The values that all its points share, in words."""
    data: str
    """The data where it is synthetic, or not the same for all points, in words; empty where nothing is to be said."""
    sweeps: tuple[StudySweep, ...]


@dataclass(frozen=True)
class _Model:
    """The rows of one benchmark."""

    rows: tuple[PlacedRow, ...]

    @cached_property
    def lesson(self) -> object:
        """Return what it learnt from and is judged by, which is equal for the models that stand together."""
        records = _records(self.rows)
        data = {record.data and (record.data.source, record.data.train, record.data.held_out) for record in records}
        items = {record.work and record.work.item for record in records}
        return data, items, {quality.name for record in records for quality in record.qualities if quality.headline}

    @cached_property
    def swept(self) -> set[tuple[str, str | None]]:
        """Return the axes that it sweeps, each with the part of the layout that it is declared to set."""
        varying = varying_axes([row for _, row in self.rows])
        swept = [axis for axis in varying if any(line.swept for line in _lines(self.rows, axis, varying))]
        return {(axis, row.record.layout.axes.get(axis)) for axis in swept for _, row in self.rows}


def make_studies(rows: Iterable[PlacedRow]) -> list[Study]:
    """Return a study of each training benchmark whose points sweep a numeric axis; those that share one are together.

    `rows` are those of one run or several, each with the device or the run that it is of.
    """
    benchmarks: dict[str, list[PlacedRow]] = {}
    for where, row in rows:
        if row.training:
            benchmarks.setdefault(row.record.point.benchmark, []).append((where, row))
    studies: list[list[_Model]] = []
    for found in benchmarks.values():
        model = _Model(tuple(_timed(found)))
        if model.swept:
            alike = (those for those in studies if any(_stand_together(model, other) for other in those))
            those = next(alike, None)
            if those is None:
                studies.append(those := [])
            those.append(model)
    return [_study([placed for model in those for placed in model.rows]) for those in studies]


def _stand_together(one: _Model, other: _Model) -> bool:
    return one.lesson == other.lesson and bool(one.swept & other.swept)


def _timed(rows: Sequence[PlacedRow]) -> list[PlacedRow]:
    """Return the rows whose run time, or rate, is a number that can be drawn."""
    time = time_of(_records(rows))
    return [(where, row) for where, row in rows if 0 < (time.of(row.record) or 0) < inf]


def _records(rows: Sequence[PlacedRow]) -> list[Record]:
    return [row.record for _, row in rows]


def _study(rows: Sequence[PlacedRow]) -> Study:
    time, quality = time_of(_records(rows)), quality_of(_records(rows))
    benchmarks = tuple(dict.fromkeys(row.record.point.benchmark for _, row in rows))
    places = tuple(dict.fromkeys(_places(rows)))
    varying = varying_axes([row for _, row in rows])
    first = rows[0][1].record
    values = {
        axis: {v for _, row in rows if isinstance(v := row.record.point.values.get(axis), int)} for axis in varying
    }
    sweeps = []
    for axis in sorted(varying, key=lambda axis: -len(values[axis])):
        found = list(_lines(rows, axis, varying))
        if any(line.swept for line in found):
            chosen = _choose(found, CHOICES if len(places) <= DASHED else DASHED)
            drawn = tuple(line for line in found if line.choice in chosen)
            measures = (time, quality) if quality and any(map(quality.values, drawn)) else (time,)
            left_out = len({line.choice for line in found}) - len(chosen)
            sweeps.append(StudySweep(benchmarks, axis, measures, drawn, left_out))
    common = params_text(first, [axis for axis in first.point.values if axis not in varying])
    return Study(benchmarks, places, common, _data_of(rows), tuple(sweeps[: SWEEPS * len(benchmarks)]))


def _data_of(rows: Sequence[PlacedRow]) -> str:
    sources: dict[str, dict[str, None]] = {}
    for place, (_, row) in zip(_places(rows), rows, strict=True):
        if row.record.data:
            sources.setdefault(source_of(row.record.data), {})[place] = None
    if len(sources) > 1:
        return "; ".join(f"{source} ({', '.join(places)})" for source, places in sources.items())
    synthetic = any(row.record.data and row.record.data.synthetic for _, row in rows)
    return "".join(sources) if synthetic else ""


def _places(rows: Sequence[PlacedRow]) -> list[str]:
    """Return the device or the run of each row with, where there are several, its backend."""
    backends = [str(row.record.point.backend) for _, row in rows]
    several = len(set(backends)) > 1
    said = zip(rows, backends, strict=True)
    return [f"{where} {backend}" if several and backend not in where.split() else where for (where, _), backend in said]


def _lines(rows: Sequence[PlacedRow], axis: str, varying: Sequence[str]) -> Iterator[StudyLine]:
    """Yield a line per place, model and choice of the other axes; of a model that has no line, its single points."""
    several = len({row.record.point.benchmark for _, row in rows}) > 1
    found: dict[tuple[str, str], list[Row]] = {}
    for place, (_, row) in zip(_places(rows), rows, strict=True):
        found.setdefault((place, row.record.point.benchmark), []).append(row)
    for (place, benchmark), those in found.items():
        choices = lines(those, axis, varying).items()
        name = f"{benchmark} " if several else ""
        drawn = [StudyLine(place, f"{name}{choice}".strip(), tuple(points)) for choice, points in choices]
        yield from [line for line in drawn if line.swept] or drawn


def _choose(found: Sequence[StudyLine], most: int) -> list[str]:
    """Return the choices of model and other axes; of too many, take some that have a line, evenly through them."""
    choices = list(dict.fromkeys(line.choice for line in found))
    if len(choices) <= most:
        return choices
    swept = list(dict.fromkeys(line.choice for line in found if line.swept))
    count = min(most, len(swept))
    return [swept[round(place * (len(swept) - 1) / max(1, count - 1))] for place in range(count)]
