"""What a study shows of a training: its time or rate, and its quality, each with a bar that says how sure it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from typing import NamedTuple

from accelbench.profiling.analysis.uncertain_quality import quality_interval
from accelbench.profiling.records.record import Record

LEAST_VALUES = 2
"""The values of the axis from which points are a line."""


@dataclass(frozen=True)
class StudyLine:
    """Points that differ in the swept axis only."""

    where: str
    """The device or the run and, where a benchmark ran on several, the backend."""
    choice: str
    """The model, where there are several, and the values of the other axes that vary."""
    points: tuple[tuple[int, Record], ...]

    @property
    def swept(self) -> bool:
        return len({value for value, _ in self.points}) >= LEAST_VALUES


class StudyPoint(NamedTuple):
    """Point of a line."""

    place: int
    """The value of the swept axis."""
    value: float
    low: float = nan
    """The lower end of the value's bar; not a number where it has no bar."""
    high: float = nan
    """The upper end of the bar."""
    with_compilation: float = nan
    """The same time with compilation; not a number where that was not measured."""


@dataclass(frozen=True)
class StudyQuantity:
    """Quantity drawn against the swept axis."""

    title: str
    unit: str
    bar: str
    """The meaning of the bars, in words."""
    of: Callable[[Record], float | None]
    bar_of: Callable[[Record], tuple[float, float] | None]
    """The ends of a value's bar."""
    with_compilation: Callable[[Record], float | None] = lambda record: None

    def values(self, line: StudyLine) -> list[StudyPoint]:
        """Return the points of the line whose value is a number."""
        found = [(place, self.of(record), record) for place, record in line.points]
        return [
            self._value(place, value, record) for place, value, record in found if value is not None and isfinite(value)
        ]

    def _value(self, place: int, value: float, record: Record) -> StudyPoint:
        low, high = self.bar_of(record) or (nan, nan)
        bar = (low, high) if isfinite(low) and isfinite(high) else (nan, nan)
        whole = self.with_compilation(record)
        return StudyPoint(place, value, *bar, whole if whole is not None and isfinite(whole) else nan)


def time_of(records: Sequence[Record]) -> StudyQuantity:
    """Return a training's time, or its rate where points train on different amounts of data: times do not compare."""
    if len({record.data and record.data.train for record in records}) <= 1:
        bar = "of the time, the interval of the rate"
        return StudyQuantity("time of the training", "s", bar, _training, _bar_of_training, _with_compilation)
    item = next((record.work.item for record in records if record.work), "items")
    rate = f"{item} per second"
    return StudyQuantity(rate, "", f"of the {rate}, their interval", lambda record: record.rate("items"), _bar_of_rate)


def _training(record: Record) -> float | None:
    """Return the seconds of one of the repeated trainings, less compilation, which long trainings make up for."""
    whole, metrics = _whole_training(record), record.metrics
    return None if whole is None else whole - (metrics["compile"].value if "compile" in metrics else 0.0)


def _whole_training(record: Record) -> float | None:
    trainings = record.data.trainings if record.data else 1
    return record.metrics["training"].value / trainings if "training" in record.metrics else None


def _with_compilation(record: Record) -> float | None:
    """Return the seconds of one of the repeated trainings with its compilation, where that was measured."""
    return _whole_training(record) if "compile" in record.metrics else None


def _bar_of_training(record: Record) -> tuple[float, float] | None:
    """Return the time of a training at both ends of the interval of its rate; None where it has no interval."""
    seconds, timing = _training(record), record.timing
    if seconds is None or timing is None or not timing.execution.confidence:
        return None
    steps = timing.execution
    return seconds * steps.low / steps.seconds, seconds * steps.high / steps.seconds


def _bar_of_rate(record: Record) -> tuple[float, float] | None:
    """Return the ends of the interval of the rate; None where it has none."""
    found = record.rate_interval("items")
    return found[1:] if found and record.timing and record.timing.execution.confidence else None


def quality_of(records: Sequence[Record]) -> StudyQuantity | None:
    """Return the quality that the benchmark is judged by; None where it declares none."""
    headlines = (quality for record in records for quality in record.qualities if quality.headline)
    headline = next(headlines, None)
    if headline is None:
        return None
    name, deviation = headline.name, headline.deviation
    repeated = any(deviation in record.metrics for record in records)

    def value(record: Record) -> float | None:
        return record.metrics[name].value if name in record.metrics else None

    def bar(record: Record) -> tuple[float, float] | None:
        found = value(record)
        if not repeated:
            return quality_interval(record, headline)
        if found is None or deviation is None or deviation not in record.metrics:
            return None
        return found - record.metrics[deviation].value, found + record.metrics[deviation].value

    title = name.replace("_", " ")
    what = "the standard deviation over the repeats" if repeated else "the interval that so many examples allow"
    return StudyQuantity(title, "", f"of the {title}, {what}", value, bar)
