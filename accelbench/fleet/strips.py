"""Drawings of a fleet: a strip of all nodes for each metric, and the trend over days."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from accelbench.fleet.odd import Floats
from accelbench.fleet.trend import FleetTrend
from accelbench.output.format import clip, counted
from accelbench.report.svg import (
    GRID,
    INK,
    MUTED,
    ROW,
    SERIES,
    WIDTH,
    add_tooltips,
    inline_svg,
    legend_below,
    plot_style,
)

EACH_NODE = 150
"""Maximum number of nodes that a strip shows as ticks; more are shown as a density."""
BINS = 160
MOST_MARKS = 600
"""Maximum number of marks in a drawing; each strip has an equal part of them, for its farthest nodes."""
STRIP, FOOT, TOP = 0.34, 0.62, 0.12
"""Heights in inches of a strip, the axis, and the margin above."""
LETTER, MOST_LEFT, RIGHT = 0.0066, 0.36, 0.86
"""Width of a letter of the labels, and the largest left and the right end of the strips, as shares of the width."""
FAR = 8.0
"""Limit of the axis as a multiple of the nodes' 99 % quantile; nodes beyond are marked at its end."""
LEAST_LIMIT = 0.02
MOST_LABEL = 54
MOST_TRENDS = 6


@dataclass(frozen=True)
class Strip:
    """Nodes of one metric."""

    metric: str
    differences: Floats
    """Difference of each node from the group's median, relative to it."""
    odd: list[tuple[str, float]]
    """Odd nodes with their differences, the slowest first."""


def draw_strips(strips: Sequence[Strip], name: str, title: str, what: str) -> Markup:
    """Draw a strip for each metric on a common axis: all nodes, and the odd ones as marks with their names."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    low, high = _limits(strips)
    left = min(MOST_LEFT, LETTER * max(min(len(strip.metric), MOST_LABEL) for strip in strips) + 0.02)
    margin = 0.012 * (high - low)
    height = TOP + STRIP * len(strips) + FOOT
    with plot_style():
        figure = Figure(figsize=(WIDTH, height))
        axes = figure.add_axes((left, FOOT / height, RIGHT - left, STRIP * len(strips) / height))
        axes.set_xlim(low, high)
        axes.set_ylim(len(strips) - 0.5, -0.5)
        for row, strip in enumerate(strips):
            axes.axhline(row, color=GRID, linewidth=0.8)
            inside = np.clip(strip.differences, low, high)
            if len(inside) <= EACH_NODE:
                axes.vlines(inside, row - 0.28, row + 0.28, color=SERIES[0], linewidth=1.0, alpha=0.55)
            else:
                place, share = _density(inside, low, high)
                ends = row - 0.42 * share, row + 0.42 * share
                axes.fill_between(place, *ends, color=SERIES[0], alpha=0.45, step="mid")
            if marked := sorted(strip.odd, key=lambda node: -abs(node[1]))[: MOST_MARKS // len(strips)]:
                values = np.clip([value for _, value in marked], low, high)
                marks = [f"{node} {100 * value:+.1f} %".replace("-", "−") for node, value in marked]
                (line,) = axes.plot(
                    values, [row] * len(marked), "D", color=SERIES[1], markersize=4.2, markeredgewidth=0, clip_on=False
                )
                add_tooltips(line, clip(strip.metric, MOST_LABEL), marks)
            label = clip(strip.metric, MOST_LABEL)
            axes.text(low - margin, row, label, ha="right", va="center", fontsize=8.5, color=INK)
            odd = f"{len(strip.odd):,} odd of " if strip.odd else ""
            color = SERIES[1] if odd else MUTED
            axes.text(high + margin, row, f"{odd}{len(inside):,}", va="center", fontsize=8.5, color=color)
        axes.axvline(0, color=MUTED, linewidth=1.0)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.xaxis.set_major_locator(MaxNLocator(9))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _percent(100 * value)))
        axes.set_xlabel(f"{what} median; ← slower, faster →")
        odd_count = sum(len(strip.odd) for strip in strips)
        return inline_svg(figure, name, f"{title}: {counted(odd_count, 'odd result')} in the table")


def _percent(value: float) -> str:
    return f"{value:+g} %".replace("-", "−") if abs(value) > 1e-9 else "0 %"


def _limits(strips: Sequence[Strip]) -> tuple[float, float]:
    """Return the ends of the common axis: all nodes, unless a few are so far that the others would be one line."""
    everything = np.concatenate([strip.differences for strip in strips])
    far = max(LEAST_LIMIT, FAR * float(np.quantile(np.abs(everything), 0.99)))
    low, high = (min(far, max(LEAST_LIMIT, float(end))) for end in (-everything.min(), everything.max()))
    return -1.05 * low, 1.05 * high


def _density(values: Floats, low: float, high: float) -> tuple[Floats, NDArray[np.float64]]:
    """Return the places of bins and the square roots of their counts relative to the largest; empty bins at the ends
    are left out."""
    counts, edges = np.histogram(values, bins=BINS, range=(low, high))
    filled = np.flatnonzero(counts)
    part = slice(max(0, filled[0] - 1), filled[-1] + 2)
    centres = (edges[:-1] + edges[1:]) / 2
    return centres[part], np.sqrt(counts[part] / counts.max())


def draw_trends(trends: Sequence[FleetTrend], name: str, title: str) -> Markup:
    """Draw the metrics with the widest trends over days."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

    shown = trends[:MOST_TRENDS]
    days = sorted({day for trend in shown for day in trend.days})
    with plot_style():
        below = 0.45 + ROW * len(shown)
        figure = Figure(figsize=(WIDTH, 1.8 + below))
        axes = figure.add_axes((0.07, below / (1.8 + below), 0.91, 1.65 / (1.8 + below)))
        lines = []
        for number, trend in enumerate(shown):
            label = f"{clip(trend.metric, MOST_LABEL)}, {trend.nodes:,} nodes"
            (line,) = axes.plot(
                [day.toordinal() for day in trend.days],
                [100 * change for change in trend.changes],
                "-o",
                color=SERIES[number],
                label=label,
                linewidth=1.6,
                markersize=3,
            )
            pairs = zip(trend.days, trend.changes, strict=True)
            marks = [f"{day}, {100 * change:+.2f} %".replace("-", "−") for day, change in pairs]
            add_tooltips(line, label, marks if len(marks) <= 40 else ())
            lines.append(line)
        ticks = days[:: max(1, -(-len(days) // 8))]
        axes.xaxis.set_major_locator(FixedLocator([day.toordinal() for day in ticks]))
        axes.set_xticklabels([day.isoformat() for day in ticks])
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _percent(value)))
        axes.margins(y=0.2)
        legend_below(figure, [lines])
        widest = shown[0]
        text = f"{title}, {days[0]} to {days[-1]}; widest: {widest.metric}, {100 * widest.range:.1f} %"
        return inline_svg(figure, name, text)
