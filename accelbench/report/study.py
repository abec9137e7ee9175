"""Studies of training workloads: training time and quality against a swept axis, as in published studies.

Such an axis is the number of units, layers or devices, or the batch size. A study shows all devices, backends and runs,
and all models with the same data, quality metric and swept axis.
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
"""Maximum number of sweeps per benchmark; axes with the most values are preferred."""
CHOICES = 8
"""Maximum number of choices (model and values of the other axes) in a sweep."""
DASHED = 5
"""Maximum number of devices, backends and runs with their own dashes; with more, dashes stand for the choices."""

PlacedRow = tuple[str, Row]
"""Label of the device or run, and the row."""


@dataclass(frozen=True)
class StudySweep:
    """Lines of one benchmark, or of several on the same data, against one axis."""

    benchmarks: tuple[str, ...]
    axis: str
    measures: tuple[StudyQuantity, ...]
    """Training time, and the quality metric if there is one."""
    lines: tuple[StudyLine, ...]
    left_out: int
    """Number of choices that are not drawn."""

    @property
    def axis_label(self) -> str:
        """Return the label of the axis: `number of units`, `batch`."""
        words = self.axis.replace("_", " ")
        return f"number of {words}" if words.endswith("s") else words

    @property
    def heading(self) -> str:
        """Return the caption: `Training time and test accuracy against the number of units`."""
        what = " and ".join(measure.title for measure in self.measures)
        return f"{what[:1].upper()}{what[1:]} against the {self.axis_label}"

    @property
    def places(self) -> list[str]:
        return list(dict.fromkeys(line.where for line in self.lines))

    @property
    def choices(self) -> list[str]:
        return list(dict.fromkeys(line.choice for line in self.lines))

    @property
    def bars(self) -> list[str]:
        """Return the meaning of the bars, a text for each quantity with bars."""
        return [m.bar for m in self.measures if any(isfinite(value.low) for value in self._values(m))]

    @property
    def compiled(self) -> bool:
        """Return whether any point has a time with compilation."""
        return any(isfinite(value.with_compilation) for m in self.measures for value in self._values(m))

    def _values(self, measure: StudyQuantity) -> Iterator[StudyPoint]:
        for line in self.lines:
            yield from measure.values(line)


@dataclass(frozen=True)
class Study:
    """Training workload, or several with the same data, on all devices, backends and runs."""

    benchmarks: tuple[str, ...]
    places: tuple[str, ...]
    """Labels of devices or runs, with the backend if there are several."""
    common: str
    """Values common to all points, as text."""
    data: str
    """Source of the data if it is synthetic or differs between points, as text; otherwise empty."""
    sweeps: tuple[StudySweep, ...]


@dataclass(frozen=True)
class _Model:
    """The rows of one benchmark."""

    rows: tuple[PlacedRow, ...]

    @cached_property
    def task(self) -> object:
        """Return data, items and quality metric, which are equal for models of one study."""
        records = _records(self.rows)
        data = {record.data and (record.data.source, record.data.train, record.data.held_out) for record in records}
        items = {record.work and record.work.item for record in records}
        return data, items, {quality.name for record in records for quality in record.qualities if quality.headline}

    @cached_property
    def swept(self) -> set[tuple[str, str | None]]:
        """Return the swept axes, each with the part of the layout that it sets."""
        varying = varying_axes([row for _, row in self.rows])
        swept = [axis for axis in varying if any(line.swept for line in _lines(self.rows, axis, varying))]
        return {(axis, row.record.layout.axes.get(axis)) for axis in swept for _, row in self.rows}


def make_studies(rows: Iterable[PlacedRow]) -> list[Study]:
    """Return the studies of all training workloads with a swept numeric axis; workloads with the same task share one.

    `rows` have labels of their devices or runs.
    """
    benchmarks: dict[str, list[PlacedRow]] = {}
    for where, row in rows:
        if row.training:
            benchmarks.setdefault(row.record.point.benchmark, []).append((where, row))
    studies: list[list[_Model]] = []
    for found in benchmarks.values():
        model = _Model(tuple(_timed(found)))
        if model.swept:
            alike = (models for models in studies if any(_share_study(model, other) for other in models))
            models = next(alike, None)
            if models is None:
                studies.append(models := [])
            models.append(model)
    return [_study([placed for model in models for placed in model.rows]) for models in studies]


def _share_study(one: _Model, other: _Model) -> bool:
    return one.task == other.task and bool(one.swept & other.swept)


def _timed(rows: Sequence[PlacedRow]) -> list[PlacedRow]:
    """Return the rows with a positive finite time or rate."""
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
    """Return the label of each row, with its backend if there are several."""
    backends = [str(row.record.point.backend) for _, row in rows]
    several = len(set(backends)) > 1
    pairs = zip(rows, backends, strict=True)
    return [f"{label} {name}" if several and name not in label.split() else label for (label, _), name in pairs]


def _lines(rows: Sequence[PlacedRow], axis: str, varying: Sequence[str]) -> Iterator[StudyLine]:
    """Yield a line per label, model and choice of the other axes; single points only for models without a line."""
    several = len({row.record.point.benchmark for _, row in rows}) > 1
    found: dict[tuple[str, str], list[Row]] = {}
    for place, (_, row) in zip(_places(rows), rows, strict=True):
        found.setdefault((place, row.record.point.benchmark), []).append(row)
    for (place, benchmark), placed in found.items():
        choices = lines(placed, axis, varying).items()
        name = f"{benchmark} " if several else ""
        drawn = [StudyLine(place, f"{name}{choice}".strip(), tuple(points)) for choice, points in choices]
        yield from [line for line in drawn if line.swept] or drawn


def _choose(found: Sequence[StudyLine], most: int) -> list[str]:
    """Return at most `most` choices of model and other axes: evenly spaced ones with a line if there are more."""
    choices = list(dict.fromkeys(line.choice for line in found))
    if len(choices) <= most:
        return choices
    swept = list(dict.fromkeys(line.choice for line in found if line.swept))
    count = min(most, len(swept))
    return [swept[round(place * (len(swept) - 1) / max(1, count - 1))] for place in range(count)]
