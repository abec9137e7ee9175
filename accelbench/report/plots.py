"""Drawings of single points: training curves and time courses."""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from accelbench.profiling.records.record import Record
from accelbench.report.rows import Row
from accelbench.report.svg import GRID, MUTED, SERIES, WIDTH, inline_svg, plot_style, tell

FIRST_CURVES = ("loss", "accuracy", "precision", "recall")
"""The curves of a training that are drawn before any others, then what was evaluated on held-out data."""
CURVES = 4
"""The most curves in one drawing of a training."""
MARKS_TOLD = 40
"""The most epochs of a training whose values the pointer tells: the page stays small."""
MOST_TICKS = 6
"""The most epochs that are labelled on an axis."""
COURSE_HEIGHT = 1.7
"""Height of a time course in inches."""
COURSE_SAMPLES = 600
"""Maximum number of samples in a time course, evenly spaced, which limits the size of the page."""
COURSE_HIDDEN = 0.01
"""Share of the samples at either end that may lie outside a time course."""


def _curve_rank(base: str, curves: Collection[str]) -> int:
    if base in FIRST_CURVES:
        return FIRST_CURVES.index(base)
    return len(FIRST_CURVES) + (f"val_{base}" not in curves)


def training_curves(record: Record, name: str) -> Markup | None:
    """Draw a panel per quality over the epochs, for training data and held-out data (`val_`); None if there is none."""
    bases = list(dict.fromkeys(key.removeprefix("val_") for key in record.curves))
    bases = sorted(bases, key=lambda base: _curve_rank(base, record.curves))[:CURVES]
    if not bases:
        return None
    with plot_style():
        figure = Figure(figsize=(WIDTH, 2.6))
        for index, base in enumerate(bases):
            width = 0.9 / len(bases)
            axes = figure.add_axes((0.07 + index * (width + 0.02), 0.19, width - 0.06, 0.66))
            for key, label, style in ((base, "training data", "-o"), (f"val_{base}", "held-out data", "-s")):
                values = record.curves.get(key)
                if values:
                    epochs = np.arange(1, len(values) + 1)
                    color = SERIES[0] if key == base else SERIES[1]
                    (line,) = axes.plot(epochs, values, style, color=color, label=label, markersize=3, linewidth=1.6)
                    marks = [f"epoch {epoch}, {value:.4g}" for epoch, value in zip(epochs, values, strict=True)]
                    tell(line, label, marks if len(marks) <= MARKS_TOLD else ())
            axes.set_title(re.sub("_s$", " in s", base).replace("_", " "), fontsize=9.5, loc="left")
            axes.set_xlabel("epoch")
            count = max(len(record.curves.get(key) or ()) for key in (base, f"val_{base}"))
            few = FixedLocator(range(1, count + 1))  # of one epoch, fractions would be printed over each other
            axes.xaxis.set_major_locator(few if count <= MOST_TICKS else MaxNLocator(MOST_TICKS, integer=True))
            if count == 1:
                axes.set_xlim(0.5, 1.5)
            axes.yaxis.set_major_locator(MaxNLocator(5))
            if index == 0 and f"val_{base}" in record.curves:
                axes.legend(loc="best")
        title = f"Training curves of {record.point}: {', '.join(bases)} by epoch"
        return inline_svg(figure, name, title)


def time_course(row: Row, name: str) -> Markup:
    """Draw a point's samples in the order measured, as deviations from its median, with its rounds and two speeds."""
    timing = row.record.timing
    assert timing is not None
    samples = np.asarray(timing.samples)
    deviations = 100 * (samples / timing.summary.median - 1)
    drawn = np.linspace(0, len(samples) - 1, min(COURSE_SAMPLES, len(samples))).round().astype(int)
    low, high = np.quantile(deviations, (COURSE_HIDDEN, 1 - COURSE_HIDDEN))
    margin = max(0.1 * (high - low), 0.5)
    with plot_style():
        figure = Figure(figsize=(WIDTH, COURSE_HEIGHT))
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
