"""What disturbed a run over time: its measurements on one time axis, and the recorded load next to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from accelbench.profiling.records.record import Record
from accelbench.profiling.records.telemetry import POWER_LIMIT
from accelbench.report.causes import end_of
from accelbench.report.stored_run import Run

MOST_SPANS = 600
"""Maximum number of measurements of a drawn run, which limits the size of the page."""
BINS = 160
"""Number of time intervals over which the load is averaged."""
MOST_LOAD = 1e6
"""Largest plausible load; larger ones, as in a foreign run, are cut."""
LEAST_LOAD = 0.01
"""Smallest maximum of a lane that is drawn: 1 % of a CPU, or of the time."""

Window = tuple[float, float]
"""Begin and end in seconds since the start of the run."""


@dataclass(frozen=True)
class MeasuredSpan:
    """Measurement of one repetition of a point."""

    title: str
    begin_s: float
    """Start in seconds since the first measurement of the run."""
    end_s: float
    disturbances: tuple[str, ...]
    """Disturbances as text; empty for a clean measurement."""


@dataclass(frozen=True)
class LoadLane:
    """Load of one kind over the run."""

    title: str
    values: NDArray[np.float64]
    """Mean load in each of `BINS` time intervals; NaN where nothing was measured."""

    @property
    def maximum(self) -> float:
        """Return the largest mean load."""
        return float(np.nanmax(self.values))


@dataclass(frozen=True)
class RunTimeline:
    """Measurements of a run with the load that was recorded at the same time."""

    started: datetime
    duration_s: float
    spans: tuple[MeasuredSpan, ...]
    lanes: tuple[LoadLane, ...]


def timeline(run: Run) -> RunTimeline | None:
    """Return the time axis of a run with recorded disturbances; None without any, and for a very large run."""
    planned = sum(map(run.info.settings.rounds_of, run.info.plan))
    if not run.counts.disturbed or run.left_out.points or planned > MOST_SPANS:
        return None
    stored = run.store.contents().lines if run.store else run.records
    lines = [line for line in stored if line.timing and line.elapsed_s]
    if not any(map(_recorded, lines)) or len(lines) > MOST_SPANS:
        return None
    started = min(line.started for line in lines).astimezone(UTC)
    duration_s = (max(end_of(line.started, line.elapsed_s) for line in lines) - started).total_seconds()
    windows = [_window(line, started) for line in lines]
    lanes = [LoadLane(title, _means(lines, windows, duration_s, load)) for title, load in LANES]
    return RunTimeline(
        started,
        duration_s,
        tuple(_span(line, started) for line in sorted(lines, key=lambda line: line.started)),
        tuple(lane for lane in lanes if not np.isnan(lane.values).all() and lane.maximum >= LEAST_LOAD),
    )


def _span(line: Record, started: datetime) -> MeasuredSpan:
    begin_s = (line.started - started).total_seconds()
    end_s = (end_of(line.started, line.elapsed_s) - started).total_seconds()
    title = f"{line.point.benchmark} {line.point.details}".strip()
    return MeasuredSpan(f"{title}, repetition {line.round}", begin_s, end_s, tuple(_recorded(line)))


def _recorded(line: Record) -> list[str]:
    """Return the disturbances that were recorded, as text; a drift and two speeds are only found in the samples."""
    bound = line.timing.upper_bound if line.timing else None
    return [*line.noise, *filter(None, [bound])]


def _window(line: Record, started: datetime) -> Window:
    """Return the time of the sampling: the last phase except for profiling, and the verification of training runs."""
    after_s = line.phases.profile_s + (line.phases.verify_s if line.timing and line.timing.steady else 0.0)
    end_s = (end_of(line.started, line.elapsed_s) - started).total_seconds() - after_s
    return end_s - line.phases.measure_s, end_s


Load = Callable[[Record, Window], Iterator[tuple[float, float, float]]]
"""Function that yields the times at which a load was recorded, as begin, end and mean load."""


def _counter(name: str) -> Load:
    """Return the load by a counter of the telemetry, in its seconds per second of the sampling."""

    def load(line: Record, window: Window) -> Iterator[tuple[float, float, float]]:
        seconds = line.telemetry.counters.get(name) if line.telemetry else None
        if seconds is not None and window[1] > window[0]:
            yield *window, max(0.0, seconds) / (window[1] - window[0])

    return load


def _other_processes(line: Record, window: Window) -> Iterator[tuple[float, float, float]]:
    """Yield the CPUs that other processes used: by block of training steps where it is known, else in total."""
    causes = line.timing.causes if line.timing else None
    if causes and any(causes.others_s):
        yield from _readings(line, window, causes.others_s)
    else:
        yield from _counter("cpu.other_s")(line, window)


def _waiting(line: Record, window: Window) -> Iterator[tuple[float, float, float]]:
    """Yield the mean number of threads that waited for a CPU, by reading of the disturbed samples."""
    causes = line.timing.causes if line.timing else None
    if causes and causes.source in ("schedstat", "launches"):
        yield from _readings(line, window, causes.waited_s)


def _readings(line: Record, window: Window, seconds: Sequence[float]) -> Iterator[tuple[float, float, float]]:
    """Yield a column of the causes as load over the times of its readings, and no load in between."""
    timing = line.timing
    assert timing is not None
    assert timing.causes is not None
    ends = np.concatenate([[0.0], np.cumsum(timing.samples)])
    places = window[0] + ends / ends[-1] * (window[1] - window[0])
    reached = window[0]
    for first, count, lost in zip(timing.causes.first, timing.causes.count, seconds, strict=False):
        begin, end = float(places[first]), float(places[first + count])
        if begin > reached:
            yield reached, begin, 0.0
        if end > begin:
            yield begin, end, lost / (end - begin)
        reached = end
    if window[1] > reached:
        yield reached, window[1], 0.0


def _card_throttled(line: Record, window: Window) -> Iterator[tuple[float, float, float]]:
    """Yield the share of the time in which a GPU was throttled, except by its power limit."""
    counters = line.telemetry.counters if line.telemetry else {}
    throttled = [
        seconds
        for name, seconds in counters.items()
        if ".throttled_s." in name and not name.endswith(f".{POWER_LIMIT}")
    ]
    if throttled and window[1] > window[0]:
        yield *window, min(1.0, max(throttled) / (window[1] - window[0]))


LANES: Sequence[tuple[str, Load]] = (
    ("CPUs used by other processes", _other_processes),
    ("CPUs taken by the hypervisor (steal)", _counter("cpu.steal_s")),
    ("CPUs stopped by the CPU quota", _counter("cgroup.throttled_s")),
    ("Threads that waited for a CPU", _waiting),
    ("Share of the time in which the GPU was throttled", _card_throttled),
)
"""Lanes in order, each with the function of its load."""


def _means(lines: Sequence[Record], windows: Sequence[Window], duration_s: float, load: Load) -> NDArray[np.float64]:
    """Return the mean load in each interval, over the part of the interval in which it was recorded."""
    edges = np.linspace(0.0, duration_s, BINS + 1)
    total, observed = np.zeros(BINS), np.zeros(BINS)
    for line, window in zip(lines, windows, strict=True):
        for begin, end, mean in load(line, window):
            overlap = np.clip(np.minimum(edges[1:], end) - np.maximum(edges[:-1], begin), 0.0, None)
            total += min(mean, MOST_LOAD) * overlap
            observed += overlap
    means: NDArray[np.float64] = np.divide(total, observed, out=np.full(BINS, np.nan), where=observed > 0)
    return means
