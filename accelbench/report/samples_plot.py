"""Drawings of samples, sorted and over time, as SVG text.

They do not use Matplotlib, so that most reports of a few points need not import it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from accelbench.output.format import clip
from accelbench.output.plain_text import plain
from accelbench.profiling.records.record import Record
from accelbench.report.rows import Group, Row
from accelbench.report.svg import WIDTH

TICKS = 240
"""Maximum number of samples drawn per point, evenly spaced after sorting, which limits the size of the page."""
HIDDEN_SHARE = 0.02
"""Share of the samples at either end that may lie outside the drawing; their number is printed."""
MOST_LABELS = 7
"""Maximum number of intervals on the x-axis."""
TOP, ROW, FOOT = 8.6, 30.2, 34.6
"""Heights in points: the margin above, a row, and the axis with its labels."""
RIGHT = 0.83
"""Right end of the axes as a share of the width; the number of samples is printed to the right of it."""
COURSE_SAMPLES = 600
"""Maximum number of samples in a time course, evenly spaced."""
COURSE_HIDDEN = 0.01
"""Share of the samples at either end that may lie outside a time course."""
COURSE_TOP, COURSE_BOTTOM, COURSE_HEIGHT = 6.0, 89.0, 122.4
COURSE_LEFT, COURSE_RIGHT = 0.09, 0.98
"""Position of a time course's axes: heights in points, and shares of the width."""
_POINTS = 72 * WIDTH

_FRAME = Markup(
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" class="plot" role="img" '
    'aria-labelledby="{name}-title" style="--width: {pixels:.0f}px; aspect-ratio: {width:g} / {height:g}">'
    '<title id="{name}-title">{title}</title>{parts}</svg>'
)
_PATH = Markup(
    '<path d="{d}" style="fill: none; stroke: var({color}); stroke-width: {width:g}; opacity: {opacity:g}"/>'
)
_TEXT = Markup(
    '<text x="{x:.1f}" y="{y:.1f}" style="font-size: {size:g}px; text-anchor: {anchor}; fill: var({color})">'
    "{text}</text>"
)


def samples(group: Group, rows: Sequence[Row], name: str) -> Markup:
    """Draw the samples of these rows as deviations from each point's median: ticks, quartiles and the interval."""
    labels = [clip(group.short(row) or row.point or group.benchmark) for row in rows]
    deviations = [_deviations(row.record) for row in rows]
    low, high = _limits(deviations)
    left, right = _POINTS * min(0.36, 0.012 * max(map(len, labels)) + 0.03), _POINTS * RIGHT
    bottom = TOP + ROW * len(rows)

    def x(percent: float) -> float:
        return left + (min(max(percent, low), high) - low) / (high - low) * (right - left)

    parts = [_path(f"M{x(0):.1f} {TOP}V{bottom:.1f}", "--muted", 1)]
    for tick in _ticks(low, high):
        parts.append(_path(f"M{x(tick):.1f} {TOP}V{bottom:.1f}", "--grid", 0.8))
        parts.append(_path(f"M{x(tick):.1f} {bottom:.1f}v3.5", "--muted", 0.8))
        parts.append(_text(x(tick), bottom + 13.5, _deviation(tick), "middle"))
    parts.append(_path(f"M{left:.1f} {bottom:.1f}H{right:.1f}", "--muted", 0.8))
    parts.append(
        _text((left + right) / 2, bottom + 26.5, "time of a sample relative to the point's median", "middle", size=9)
    )
    for place, (row, label, values) in enumerate(zip(rows, labels, deviations, strict=True)):
        assert row.record.timing is not None
        summary = row.record.timing.summary
        y = TOP + ROW * (place + 0.5)
        inside = values[(values >= low) & (values <= high)]
        drawn = inside[np.linspace(0, len(inside) - 1, min(TICKS, len(inside))).round().astype(int)]
        ticks = "".join(f"M{x(float(value)):.1f} {y - 9:.1f}v18" for value in drawn)
        q1, q3 = np.quantile(values, (0.25, 0.75))
        ends = [100 * (end / summary.median - 1) for end in (summary.ci_low, summary.ci_high)]
        parts.append(_path(ticks, "--series-1", 0.8, 0.55))
        parts.append(_path(f"M{x(float(q1)):.1f} {y:.1f}H{x(float(q3)):.1f}", "--series-1", 7, 0.3))
        parts.append(_path(f"M{x(ends[0]):.1f} {y:.1f}H{x(ends[1]):.1f}", "--ink", 2.2))
        parts.append(_text(left - 4, y + 3, label, "end", color="--ink"))
        outside = ((np.count_nonzero(values > high), "slower →"), (np.count_nonzero(values < low), "faster ←"))
        notes = [f"{summary.count:,} samples", *(f"{count:,} {where}" for count, where in outside if count)]
        for line, note in enumerate(notes):
            parts.append(_text(right + 8, y + 3 + 9.5 * (line - (len(notes) - 1) / 2), note, "start", size=8))
    title = f"Samples of {group.benchmark} on {group.device}, as deviations from each point's median"
    return _framed(parts, bottom + FOOT, name, title)


def time_course(row: Row, name: str) -> Markup:
    """Draw a point's samples in order of measurement, as deviations from its median, with repetitions and speeds."""
    timing = row.record.timing
    assert timing is not None
    repetitions = timing.used_by_repetition([part.count for part in row.record.rounds])
    values = 100 * (np.concatenate(repetitions) / timing.summary.median - 1)
    drawn = np.linspace(0, len(values) - 1, min(COURSE_SAMPLES, len(values))).round().astype(int)
    low, high = (float(end) for end in np.quantile(values, (COURSE_HIDDEN, 1 - COURSE_HIDDEN)))
    margin = max(0.1 * (high - low), 0.5)
    low, high = low - margin, high + margin
    left, right = _POINTS * COURSE_LEFT, _POINTS * COURSE_RIGHT

    def x(number: float) -> float:
        return left + (number - 0.5) / len(values) * (right - left)

    def y(percent: float) -> float:
        return COURSE_BOTTOM - (percent - low) / (high - low) * (COURSE_BOTTOM - COURSE_TOP)

    def across(percent: float, color: str, width: float) -> Markup:
        return _path(f"M{left:.1f} {y(percent):.1f}H{right:.1f}", color, width)

    parts = []
    for tick in _ticks(low, high, 4):
        parts += [across(tick, "--grid", 0.8), _text(left - 4, y(tick) + 3, _deviation(tick), "end")]
    for tick in _ticks(0, len(values)):
        if tick >= 1 and tick.is_integer():
            parts.append(_path(f"M{x(tick):.1f} {COURSE_BOTTOM}v3.5", "--muted", 0.8))
            parts.append(_text(x(tick), COURSE_BOTTOM + 13.5, f"{tick:,.0f}", "middle"))
    for end in np.cumsum([len(part) for part in repetitions])[:-1]:
        parts.append(_path(f"M{x(end + 0.5):.1f} {COURSE_TOP}V{COURSE_BOTTOM}", "--grid", 1.5))
    inside = [number for number in drawn if low <= values[number] <= high]
    marks = "".join(f"M{x(number + 1) - 1:.1f} {y(values[number]):.1f}h2" for number in inside)
    parts += [_path(marks, "--series-1", 2, 0.7), across(0, "--muted", 1)]
    speeds = [100 * (speed.seconds / timing.summary.median - 1) for speed in row.course.speeds]
    parts += [across(speed, "--series-2", 1) for speed in speeds if low <= speed <= high]
    parts.append(_path(f"M{left:.1f} {COURSE_TOP}V{COURSE_BOTTOM}H{right:.1f}", "--muted", 0.8))
    axis = "sample, in order of measurement"
    parts.append(_text((left + right) / 2, COURSE_BOTTOM + 26.5, axis, "middle", size=9))
    title = f"Time course of {row.record.point.benchmark} {row.point}: {row.course.sentence}"
    return _framed(parts, COURSE_HEIGHT, name, title)


def _framed(parts: Sequence[Markup], height: float, name: str, title: str) -> Markup:
    sizes = {"width": _POINTS, "height": round(height, 1), "pixels": 96 * WIDTH}
    return _FRAME.format(**sizes, name=name, title=plain(title), parts=Markup("").join(parts))


def _deviation(percent: float) -> str:
    return f"{percent:+g} %".replace("-", "−") if percent else "median"


def _path(d: str, color: str, width: float, opacity: float = 1.0) -> Markup:
    return _PATH.format(d=d, color=color, width=width, opacity=opacity)


def _text(x: float, y: float, text: str, anchor: str, size: float = 8.5, color: str = "--muted") -> Markup:
    return _TEXT.format(x=x, y=y, text=plain(text), anchor=anchor, size=size, color=color)


def _deviations(record: Record) -> NDArray[np.float64]:
    """Return the sorted deviations of the samples from their median in percent."""
    assert record.timing is not None
    return 100 * (np.sort(np.asarray(record.timing.used)) / record.timing.summary.median - 1)


def _limits(deviations: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
    """Return the range in percent of all points' samples without the outermost, at least ±0.5 %."""
    low = min(float(np.quantile(values, HIDDEN_SHARE)) for values in deviations)
    high = max(float(np.quantile(values, 1 - HIDDEN_SHARE)) for values in deviations)
    margin = 0.04 * (high - low)
    return min(low - margin, -0.5), max(high + margin, 0.5)


def _ticks(low: float, high: float, most: int = MOST_LABELS) -> list[float]:
    """Return tick positions at multiples of a round step, with at most `most` steps between the ends."""
    magnitude = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(step for factor in (1, 2, 2.5, 5, 10) if (high - low) / (step := factor * magnitude) <= most)
    return [round(number * step, 12) for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
