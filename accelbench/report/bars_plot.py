"""Grouped bars of the points measured in several runs, as SVG that fits any width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap

from markupsafe import Markup

from accelbench.output.format import clip
from accelbench.profiling.records.record import Record
from accelbench.report.fluid_svg import LINE, WIDTH, fluid_svg, text, titled
from accelbench.report.same_points import PointInRun, SamePoint

MAX_BARS = 120
"""Maximum number of bars; the table has all results."""
COLORS = 6
"""Number of colours; further runs have the same colours, paler and with an outline."""
LONGEST = 58.0
"""Length of a group's longest bar in percent of the width; the rest is for its text."""
MAX_EXCESS = 1.2
"""Maximum end of an interval, relative to the fastest result of the group; longer ones are cut."""
BAR, GAP = 14, 10
"""Heights in pixels of a bar, and of the gap between groups."""


@dataclass(frozen=True)
class SpeedInterval:
    """Result as a speed: the rate, or the reciprocal of the time."""

    value: float
    low: float
    high: float


def bars_plot(points: Sequence[SamePoint], name: str) -> Markup:
    """Draw a group of bars for each point, with a bar for each run; `name` is unique in the page."""
    places = list(dict.fromkeys(entry.place for point in points for entry in point.entries))
    shown = points[: max(1, MAX_BARS // len(places))]
    y, parts = 0, []
    for number, place in enumerate(places):
        key = Markup('<rect class="{}" x="0" y="{}" width="12" height="12"/>').format(_style(number), y + 4)
        parts += [key, text("18", y + 14, clip(place, WIDTH))]
        y += LINE
    for point in shown:
        y += GAP
        for line in wrap(point.name, WIDTH):
            parts.append(text("0", y + 14, line, "bar-title"))
            y += LINE
        for bar in _group(point, places, y):
            parts.append(bar)
            y += BAR + 4
    more = f" {len(points) - len(shown)} more points are in the table." if len(points) > len(shown) else ""
    title = f"Results of {', '.join(places)} at {len(shown)} points; longer bars are faster.{more}"
    return fluid_svg(name, title, y + 4, parts)


def _group(point: SamePoint, places: Sequence[str], top: int) -> Iterator[Markup]:
    """Yield a bar for each run of the point, from `top` in pixels downwards."""
    records = [entry.row.record for entry in point.entries]
    rated = all(record.figure != "time" and record.rate() for record in records)
    speeds = [_speed(record, rated) for record in records]
    fastest = max(speed.value for speed in speeds)
    end = max(min(speed.high, MAX_EXCESS * fastest) for speed in speeds)
    for number, (entry, speed) in enumerate(zip(point.entries, speeds, strict=True)):
        value, low, high = (LONGEST * min(each, end) / end for each in (speed.value, speed.low, speed.high))
        y = top + number * (BAR + 4)
        style = f"{_style(places.index(entry.place))}{' noisy' * entry.row.noisy}"
        rect = Markup('<rect class="{}" x="0" y="{}" width="{}%" height="{}"/>').format(style, y, round(value, 2), BAR)
        line = Markup('<line x1="{}%" x2="{}%" y1="{}" y2="{}"/>').format(
            round(low, 2), round(high, 2), y + BAR / 2, y + BAR / 2
        )
        result = entry.row.reading.quantity
        label = text(f"{round(max(value, high), 2)}%", y + 11, result, shift=6)
        yield titled(_described(point, entry), (rect, line, label))


def _described(point: SamePoint, entry: PointInRun) -> str:
    """Return the text of a bar: `n001, matmul n=2048: 180 GFLOP/s ±3 %, noisy, speed × 0.9`."""
    ratio = f", speed {entry.ratio.value}" if entry.ratio else ""
    return f"{entry.place}, {point.name}: {entry.row.reading}{', noisy' * entry.row.noisy}{ratio}"


def _speed(record: Record, rated: bool) -> SpeedInterval:
    """Return the rate of the record, or the reciprocal of its time."""
    found = record.rate_interval(None if rated else "time")
    assert found is not None
    value, low, high = found
    return SpeedInterval(value, low, high) if rated else SpeedInterval(1 / value, 1 / high, 1 / low)


def _style(number: int) -> str:
    """Return the classes of a run's bars."""
    return f"bar-{number % COLORS + 1}{' again' * (number // COLORS % 2)}"
