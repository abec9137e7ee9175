"""Drawing of a run's measurements and of the load over time, as SVG text that fits any width.

Positions are percentages of the width, so that the text keeps its size on narrow screens.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import groupby

import numpy as np
from markupsafe import Markup

from accelbench.output.format import digits
from accelbench.output.plain_text import plain
from accelbench.report.disturbances import BINS, LoadLane, RunTimeline

LABEL, LANE, GAP, AXIS = 16, 26, 10, 22
"""Heights in pixels: a lane's label, a lane, the space below it, and the axis."""
STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
"""Possible distances of the axis' labels in seconds."""
MOST_LABELS = 5
"""Maximum number of labels, which fit 400 pixels."""
LEAST_SPAN = 0.15
"""Smallest width of a measurement in percent."""
EDGE = 4
"""Distance of a label from either end, in percent, below which it is aligned with the end."""
DAY_S = 86400

_SVG = Markup(
    '<svg xmlns="http://www.w3.org/2000/svg" class="timeline" role="img" aria-labelledby="{name}-title" '
    'aria-describedby="{name}-desc" style="height: {height}px; fill: var(--ink)">'
    '<title id="{name}-title">{title}</title><desc id="{name}-desc">{description}</desc>{parts}</svg>'
)
_SPAN = Markup(
    '<rect x="{x:.2f}%" y="{y}" width="{width:.2f}%" height="{height}" style="fill: var({color}); opacity: {opacity}">'
    "<title>{title}</title></rect>"
)
_LOAD = Markup('<rect x="{x:.2f}%" y="{y:.1f}" width="{width:.2f}%" height="{height:.1f}"/>')
_TEXT = Markup('<text x="{x:.2f}%" y="{y}" style="text-anchor: {anchor}; fill: var(--muted)">{text}</text>')
_LINE = Markup('<rect x="{x:.2f}%" y="{y}" width="{width}" height="{height}" style="fill: var(--{color})"/>')


def draw_timeline(found: RunTimeline, name: str) -> Markup:
    """Draw the measurements as spans, the disturbed ones marked, and a lane for each kind of load."""
    parts, y = [_label("Measurements; disturbed ones are marked", 0)], LABEL
    parts += [_rect(found, number, y) for number in range(len(found.spans))]
    y += LANE
    parts.append(_base(y))
    for lane in found.lanes:
        y += GAP
        parts.append(_label(f"{lane.title}, at most {digits(lane.maximum, 2)}", y))
        y += LABEL + LANE
        parts += [Markup('<g style="fill: var(--series-2)">'), *_bars(lane, y), Markup("</g>"), _base(y)]
    grid = []
    for at_s, text in _ticks(found):
        x = 100 * at_s / found.duration_s
        grid.append(_LINE.format(x=x, y=LABEL, width=1, height=y - LABEL + 4, color="grid"))
        anchor = "start" if x < EDGE else "end" if x > 100 - EDGE else "middle"
        grid.append(_TEXT.format(x=x, y=y + 16, anchor=anchor, text=text))
    return _SVG.format(
        name=name,
        height=y + AXIS,
        title="Measurements of the run and the load of the machine over time",
        description=plain(_description(found)),
        parts=Markup().join(grid + parts),
    )


def _label(text: str, y: int) -> Markup:
    return _TEXT.format(x=0, y=y + 11, anchor="start", text=text)


def _rect(found: RunTimeline, number: int, y: int) -> Markup:
    span = found.spans[number]
    texts = [span.title, f"{_clock(found, span.begin_s)}–{_clock(found, span.end_s)}", *span.disturbances]
    return _SPAN.format(
        x=100 * span.begin_s / found.duration_s,
        y=y,
        width=max(LEAST_SPAN, 100 * (span.end_s - span.begin_s) / found.duration_s - 0.1),
        height=LANE,
        color="--warn" if span.disturbances else "--series-1",
        opacity=1 if span.disturbances else 0.35,
        title=plain("; ".join(texts)),
    )


def _base(y: int) -> Markup:
    return _LINE.format(x=0, y=y, width="100%", height=1, color="muted")


def _bars(lane: LoadLane, bottom: int) -> Iterator[Markup]:
    """Yield the lane's values as bars with heights relative to the maximum; equal neighbours are one bar."""
    heights = (LANE * np.nan_to_num(lane.values) / lane.maximum).round(1).tolist()
    number = 0
    for height, same in groupby(heights):
        count = len(list(same))
        if height:
            yield _LOAD.format(x=100 * number / BINS, y=bottom - height, width=100 * count / BINS, height=height)
        number += count


def _ticks(found: RunTimeline) -> list[tuple[float, str]]:
    """Return the positions of the axis' labels in seconds, at round times of the day, with their texts."""
    days = DAY_S * np.ceil(found.duration_s / MOST_LABELS / DAY_S)
    step = next((step for step in STEPS_S if found.duration_s / step <= MOST_LABELS), int(days))
    midnight = found.started.replace(hour=0, minute=0, second=0, microsecond=0)
    since_s = (found.started - midnight).total_seconds()
    first = int(np.ceil(since_s / step)) * step
    times = np.arange(first, since_s + found.duration_s, step)
    return [(float(at - since_s), _clock(found, float(at - since_s), step < 60)) for at in times]


def _clock(found: RunTimeline, at_s: float, with_seconds: bool = True) -> str:
    return f"{found.started + timedelta(seconds=at_s):{'%H:%M:%S' if with_seconds else '%H:%M'}}"


def _description(found: RunTimeline) -> str:
    disturbed = sum(bool(span.disturbances) for span in found.spans)
    loads = [f"{lane.title}: at most {digits(lane.maximum, 2)}." for lane in found.lanes]
    when = f"from {_clock(found, 0)} to {_clock(found, found.duration_s)}"
    return " ".join([f"{disturbed} of {len(found.spans)} measurements {when} were disturbed.", *loads])
