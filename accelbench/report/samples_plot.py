"""Drawings of samples, sorted and over time, as HTML and SVG text.

They do not use Matplotlib, so that most reports of a few points need not import it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from accelbench.output.format import clip, read
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
STRIP, STRIP_HEIGHT = 1000, 28
"""Width and height of a strip in its own units; the page stretches it horizontally to its place."""
LABEL_MARGIN = 0.04
"""Share of the width at either end in which ticks have no label, so that labels stay within the axis."""
COURSE_SAMPLES = 600
"""Maximum number of samples in a time course, evenly spaced."""
COURSE_HIDDEN = 0.01
"""Share of the samples at either end that may lie outside a time course."""
COURSE_TOP, COURSE_BOTTOM, COURSE_HEIGHT = 6.0, 89.0, 122.4
COURSE_LEFT, COURSE_RIGHT = 0.09, 0.98
"""Position of a time course's axes: heights in points, and shares of the width."""
FEWEST_STEPS = 5
"""Minimum number of steps in a drawing of their durations."""
_POINTS = 72 * WIDTH

_FRAME = Markup(
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" class="plot" role="img" '
    'aria-labelledby="{name}-title" style="--width: {pixels:.0f}px; aspect-ratio: {width:g} / {height:g}">'
    '<title id="{name}-title">{title}</title>{parts}</svg>'
)
_STRIPS = Markup(
    '<div class="strips" role="group" aria-label="{title}">{strips}'
    '<p class="axis" aria-hidden="true">{labels}</p></div>'
)
_STRIP = Markup(
    '<div class="strip"><span class="label" id="{name}">{label}</span><svg xmlns="http://www.w3.org/2000/svg" '
    'viewBox="0 0 {width} {height}" preserveAspectRatio="none" role="img" aria-labelledby="{name}">{marks}</svg>'
    '<span class="note">{note}</span></div>'
)
_TICK = Markup('<span class="{kind}" style="left: {x:.1f}%">{text}</span>')
_PATH = Markup(
    '<path d="{d}" style="fill: none; stroke: var({color}); stroke-width: {width:g}; opacity: {opacity:g}"/>'
)
_TEXT = Markup(
    '<text x="{x:.1f}" y="{y:.1f}" style="font-size: {size:g}px; text-anchor: {anchor}; fill: var({color})">'
    "{text}</text>"
)


def samples(group: Group, rows: Sequence[Row], name: str) -> Markup:
    """Draw the samples of these rows as deviations from each point's median: ticks, quartiles and the interval.

    Each row is a strip as wide as its place in the page, with a common axis below.
    """
    deviations = [_deviations(row.record) for row in rows]
    low, high = _limits(deviations)

    def x(percent: float) -> float:
        return STRIP * (min(max(percent, low), high) - low) / (high - low)

    ticks = _ticks(low, high)
    grid = _path("".join(f"M{x(tick):.1f} 0v{STRIP_HEIGHT}" for tick in ticks if tick), "--grid", 0.8)
    grid += _path(f"M{x(0):.1f} 0v{STRIP_HEIGHT}", "--muted", 1)
    strips = Markup("").join(
        _strip(
            row,
            values,
            x,
            (low, high),
            f"{name}-{number}",
            clip(group.short(row) or row.point or group.benchmark),
            grid,
        )
        for number, (row, values) in enumerate(zip(rows, deviations, strict=True), start=1)
    )
    middle, ends = ticks.index(0.0), (LABEL_MARGIN * STRIP, (1 - LABEL_MARGIN) * STRIP)
    places = [(number, tick, min(max(x(tick), ends[0]), ends[1])) for number, tick in enumerate(ticks)]
    labels = Markup("").join(
        _TICK.format(x=place / STRIP * 100, kind="odd" if (number - middle) % 2 else "even", text=_deviation(tick))
        for number, tick, place in places
        if place == x(tick) or not tick
    )
    title = f"Samples of {group.benchmark} on {group.device}, as deviations from each point's median"
    return _STRIPS.format(title=plain(title), strips=strips, labels=labels)


def _strip(
    row: Row,
    values: NDArray[np.float64],
    x: Callable[[float], float],
    limits: tuple[float, float],
    name: str,
    label: str,
    grid: Markup,
) -> Markup:
    """Draw the sorted deviations of one row, with its label and the number of samples."""
    assert row.record.timing is not None
    summary, (low, high) = row.record.timing.summary, limits
    inside = values[(values >= low) & (values <= high)]
    drawn = inside[np.linspace(0, len(inside) - 1, min(TICKS, len(inside))).round().astype(int)]
    ticks = "".join(f"M{x(float(value)):.1f} 5v18" for value in drawn)
    q1, q3 = np.quantile(values, (0.25, 0.75))
    ends = [100 * (end / summary.median - 1) for end in (summary.ci_low, summary.ci_high)]
    middle = STRIP_HEIGHT / 2
    marks = _path(ticks, "--series-1", 0.8, 0.55)
    marks += _path(f"M{x(float(q1)):.1f} {middle}H{x(float(q3)):.1f}", "--series-1", 9, 0.3)
    marks += _path(f"M{x(ends[0]):.1f} {middle}H{x(ends[1]):.1f}", "--ink", 3)
    outside = ((np.count_nonzero(values > high), "slower →"), (np.count_nonzero(values < low), "faster ←"))
    notes = [f"{summary.count:,} samples", *(f"{count:,} {where}" for count, where in outside if count)]
    return _STRIP.format(
        name=name, label=plain(label), marks=grid + marks, note=", ".join(notes), width=STRIP, height=STRIP_HEIGHT
    )


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


def step_times(record: Record, name: str) -> Markup | None:
    """Draw the duration of each step over its number: the measured steps, then the profiled ones of the second pass.

    Steps beyond the axis are drawn at its edge. None with fewer than `FEWEST_STEPS` measured steps.
    """
    timing, profile = record.timing, record.profile
    measured = timing.samples if timing is not None and timing.timer == "steps" else []
    if len(measured) < FEWEST_STEPS:
        return None
    assert timing is not None
    breakdown = profile.trace.breakdown if profile and profile.trace else None
    profiled = [sum(parts) for parts in zip(*breakdown.of_steps.values(), strict=False)] if breakdown else []
    values = np.asarray([*measured, *profiled])
    high = float(np.quantile(values, 1 - COURSE_HIDDEN)) * 1.1
    left, right = _POINTS * COURSE_LEFT, _POINTS * COURSE_RIGHT

    def x(number: float) -> float:
        return left + (number - 0.5) / len(values) * (right - left)

    def y(seconds: float) -> float:
        return COURSE_BOTTOM - min(seconds / high, 1.0) * (COURSE_BOTTOM - COURSE_TOP)

    def marks(first: int, end: int, color: str) -> Markup:
        drawn = np.linspace(first, end - 1, min(COURSE_SAMPLES, end - first)).round().astype(int)
        return _path("".join(f"M{x(n + 1) - 1.2:.1f} {y(values[n]):.1f}h2.4" for n in drawn), color, 2.4)

    parts = []
    for tick in _ticks(0, high, 4):
        parts.append(_path(f"M{left:.1f} {y(tick):.1f}H{right:.1f}", "--grid", 0.8))
        parts.append(_text(left - 4, y(tick) + 3, read(tick, "s").quantity if tick else "0", "end", color="--ink"))
    for tick in _ticks(0, len(values)):
        if tick >= 1 and tick.is_integer():
            parts.append(_path(f"M{x(tick):.1f} {COURSE_BOTTOM}v3.5", "--muted", 0.8))
            parts.append(_text(x(tick), COURSE_BOTTOM + 13.5, f"{tick:,.0f}", "middle"))
    parts.append(marks(0, len(measured), "--series-1"))
    if profiled:
        end = x(len(measured) + 0.5)
        parts.append(_path(f"M{end:.1f} {COURSE_TOP}V{COURSE_BOTTOM}", "--muted", 1))
        parts.append(_text(end - 5, COURSE_BOTTOM - 4, "measured", "end"))
        parts.append(_text(end + 5, COURSE_BOTTOM - 4, "profiled", "start"))
        parts.append(marks(len(measured), len(values), "--series-2"))
    parts.append(_path(f"M{left:.1f} {COURSE_TOP}V{COURSE_BOTTOM}H{right:.1f}", "--muted", 0.8))
    parts.append(_text((left + right) / 2, COURSE_BOTTOM + 26.5, "step", "middle", size=9))
    title = f"Duration of each step of {record.point}: {len(measured):,} measured, {len(profiled):,} profiled"
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
