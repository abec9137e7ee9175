"""Quantities of a study: training time or rate, and quality, each with error bars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from typing import NamedTuple, TypeGuard

from accelbench.profiling.analysis.uncertain_quality import quality_interval
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.timing import Timing

LEAST_VALUES = 2
"""Minimum number of axis values in a line."""


@dataclass(frozen=True)
class StudyLine:
    """Points that differ only in the swept axis."""

    where: str
    """Label of the device or run, with the backend if there are several."""
    choice: str
    """Model, if there are several, and values of the other varying axes."""
    points: tuple[tuple[int, Record], ...]

    @property
    def swept(self) -> bool:
        return len({value for value, _ in self.points}) >= LEAST_VALUES


class StudyPoint(NamedTuple):
    """Point of a line."""

    place: int
    """Value of the swept axis."""
    value: float
    low: float = nan
    """Lower end of the error bar; NaN without one."""
    high: float = nan
    """Upper end of the error bar."""
    with_compilation: float = nan
    """Time including compilation; NaN if not measured."""


@dataclass(frozen=True)
class StudyQuantity:
    """Quantity drawn against the swept axis."""

    title: str
    unit: str
    bar: str
    """Meaning of the error bars, as text."""
    of: Callable[[Record], float | None]
    bar_of: Callable[[Record], tuple[float, float] | None]
    """Function that returns the ends of a record's error bar."""
    with_compilation: Callable[[Record], float | None] = lambda record: None

    def values(self, line: StudyLine) -> list[StudyPoint]:
        """Return the points of the line with a finite value."""
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
    """Return the training time, or the rate if the points train on different amounts of data."""
    if len({record.data and record.data.train for record in records}) <= 1:
        bar = "training time, by the interval of the rate"
        return StudyQuantity("training time", "s", bar, _training, _bar_of_training, _with_compilation)
    item = next((record.work.item for record in records if record.work), "items")
    rate = f"{item} per second"
    return StudyQuantity(rate, "", f"interval of the {rate}", lambda record: record.rate("items"), _bar_of_rate)


def _training(record: Record) -> float | None:
    """Return the seconds of one training run without compilation."""
    whole, metrics = _whole_training(record), record.metrics
    return None if whole is None else whole - (metrics["compile"].value if "compile" in metrics else 0.0)


def _whole_training(record: Record) -> float | None:
    trainings = record.data.trainings if record.data else 1
    return record.metrics["training"].value / trainings if "training" in record.metrics else None


def _with_compilation(record: Record) -> float | None:
    """Return the seconds of one training run with compilation; None if compilation was not measured."""
    return _whole_training(record) if "compile" in record.metrics else None


def _bar_of_training(record: Record) -> tuple[float, float] | None:
    """Return the training times at both ends of the interval of the rate; None without an interval."""
    seconds, timing = _training(record), record.timing
    if seconds is None or not _has_interval(timing):
        return None
    steps = timing.execution
    return seconds * (steps.low / steps.seconds), seconds * (steps.high / steps.seconds)


def _bar_of_rate(record: Record) -> tuple[float, float] | None:
    """Return the ends of the rate's interval; None without one."""
    found = record.rate_interval("items")
    return found[1:] if found and _has_interval(record.timing) else None


def _has_interval(timing: Timing | None) -> TypeGuard[Timing]:
    return timing is not None and timing.execution.confidence > 0 and not timing.upper_bound


def quality_of(records: Sequence[Record]) -> StudyQuantity | None:
    """Return the headline quality metric; None if none is declared."""
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
    what = "standard deviation over repeated training runs" if repeated else "95 % interval by the number of examples"
    return StudyQuantity(title, "", f"{title}, {what}", value, bar)
