"""The report's drawing of a point's time course, for points that drift or have two speeds."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from accelbench.report.rows import Row
from accelbench.report.svg import GRID, MUTED, SERIES, WIDTH, inline_svg, plot_style

HEIGHT = 1.7
DRAWN = 600
"""The samples drawn at most, evenly through all of them, so that the course stays and the page stays small."""
HIDDEN_SHARE = 0.01
"""The part of the samples at either end that may lie outside the drawing."""


def time_course(row: Row, name: str) -> Markup:
    """Draw a point's samples in the order measured, as deviations from its median, with its rounds and two speeds."""
    timing = row.record.timing
    assert timing is not None
    samples = np.asarray(timing.samples)
    deviations = 100 * (samples / timing.summary.median - 1)
    drawn = np.linspace(0, len(samples) - 1, min(DRAWN, len(samples))).round().astype(int)
    low, high = np.quantile(deviations, (HIDDEN_SHARE, 1 - HIDDEN_SHARE))
    margin = max(0.1 * (high - low), 0.5)
    with plot_style():
        figure = Figure(figsize=(WIDTH, HEIGHT))
        axes = figure.add_axes((0.09, 0.27, 0.89, 0.68))
        axes.plot(drawn + 1, deviations[drawn], color=SERIES[0], linewidth=0, marker=".", markersize=3, alpha=0.7)
        axes.axhline(0, color=MUTED, linewidth=1)
        for speed in row.course.speeds:
            axes.axhline(100 * (speed.seconds / timing.summary.median - 1), color=SERIES[1], linewidth=1)
        for end in np.cumsum([part.count for part in row.record.rounds])[:-1]:
            axes.axvline(end + 0.5, color=GRID, linewidth=1.5)
        axes.set_xlim(0.5, len(samples) + 0.5)
        axes.set_ylim(low - margin, high + margin)
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.yaxis.set_major_formatter(
            FuncFormatter(lambda value, _: f"{value:+g} %".replace("-", "−") if value else "median")
        )
        axes.set_xlabel("sample, in the order measured")
        title = f"Time course of {row.record.point.benchmark} {row.point}: {row.course.sentence}"
        return inline_svg(figure, name, title)
