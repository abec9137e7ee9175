"""Drawing of the samples of each point, as SVG text: unlike the other drawings, it takes no drawing library.

Every report has this drawing, and most reports of a few points have no other.
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
"""Maximum number of samples drawn per point, evenly through the sorted ones, which limits the size of the page."""
HIDDEN_SHARE = 0.02
"""Share of the samples at either end that may lie outside the drawing; their number is printed there."""
MOST_LABELS = 7
"""Maximum number of intervals on the x-axis."""
TOP, ROW, FOOT = 8.6, 30.2, 34.6
"""Heights in points: the margin above, a row, and the axis with its labels."""
RIGHT = 0.83
"""Right end of the axes, as a share of the width; the number of samples stands beyond it."""
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
        text = f"{tick:+g} %".replace("-", "−") if tick else "median"
        parts.append(_path(f"M{x(tick):.1f} {TOP}V{bottom:.1f}", "--grid", 0.8))
        parts.append(_path(f"M{x(tick):.1f} {bottom:.1f}v3.5", "--muted", 0.8))
        parts.append(_text(x(tick), bottom + 13.5, text, "middle"))
    parts.append(_path(f"M{left:.1f} {bottom:.1f}H{right:.1f}", "--muted", 0.8))
    parts.append(
        _text((left + right) / 2, bottom + 26.5, "time of a sample, from the point's median", "middle", size=9)
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
    return _FRAME.format(
        width=_POINTS,
        height=round(bottom + FOOT, 1),
        pixels=96 * WIDTH,
        name=name,
        title=plain(title),
        parts=Markup("").join(parts),
    )


def _path(d: str, color: str, width: float, opacity: float = 1.0) -> Markup:
    return _PATH.format(d=d, color=color, width=width, opacity=opacity)


def _text(x: float, y: float, text: str, anchor: str, size: float = 8.5, color: str = "--muted") -> Markup:
    return _TEXT.format(x=x, y=y, text=plain(text), anchor=anchor, size=size, color=color)


def _deviations(record: Record) -> NDArray[np.float64]:
    """Return the samples in percent from their median, sorted."""
    assert record.timing is not None
    return 100 * (np.sort(np.asarray(record.timing.samples)) / record.timing.summary.median - 1)


def _limits(deviations: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
    """Return the range in percent of all points without their outermost samples, at least ±0.5 %."""
    low = min(float(np.quantile(values, HIDDEN_SHARE)) for values in deviations)
    high = max(float(np.quantile(values, 1 - HIDDEN_SHARE)) for values in deviations)
    margin = 0.04 * (high - low)
    return min(low - margin, -0.5), max(high + margin, 0.5)


def _ticks(low: float, high: float) -> list[float]:
    """Return the multiples of a round step between the ends, at most `MOST_LABELS` steps apart."""
    magnitude = 10.0 ** math.floor(math.log10((high - low) / MOST_LABELS))
    step = next(step for factor in (1, 2, 2.5, 5, 10) if (high - low) / (step := factor * magnitude) <= MOST_LABELS)
    return [round(number * step, 12) for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
