"""Drawings of single benchmarks: samples of each point, time courses, training curves."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from accelbench.output.format import clip
from accelbench.profiling.records.record import Record
from accelbench.report.rows import Group, Row
from accelbench.report.svg import GRID, INK, MUTED, SERIES, WIDTH, inline_svg, plot_style, tell

TICKS = 240
"""The samples drawn per point: evenly through the sorted ones, so that the shape stays and the page stays small."""
HIDDEN_SHARE = 0.02
"""The part of the samples at either end that may lie outside the drawing, where it is said how many do."""
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


def samples(group: Group, rows: Sequence[Row], name: str) -> Markup:
    """Draw the samples of these rows as deviations from each point's median: a tick each, quartiles, the interval."""
    labels = [_label(group, row) for row in rows]
    deviations = [_deviations(row.record) for row in rows]
    low, high = _limits(deviations)
    height = 0.42 * len(rows) + 0.62
    label_width = min(0.36, 0.012 * max(map(len, labels)) + 0.03)
    with plot_style():
        figure = Figure(figsize=(WIDTH, height))
        axes = figure.add_axes((label_width, 0.48 / height, 0.83 - label_width, 1 - 0.6 / height))
        axes.grid(visible=False, axis="y")
        axes.spines["left"].set_visible(False)
        axes.axvline(0, color=MUTED, linewidth=1)
        for place, (row, values) in enumerate(zip(rows, deviations, strict=True)):
            _draw_samples(axes, place, row, values, low, high)
        axes.set_yticks(range(len(rows)), labels)
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlim(low, high)
        axes.xaxis.set_major_locator(MaxNLocator(7))
        axes.xaxis.set_major_formatter(
            FuncFormatter(lambda value, _: f"{value:+g} %".replace("-", "−") if value else "median")
        )
        axes.set_xlabel("time of a sample, from the point's median")
        title = f"Samples of {group.benchmark} on {group.device}, as deviations from each point's median"
        return inline_svg(figure, name, title)


def _label(group: Group, row: Row) -> str:
    return clip(group.short(row) or row.point or group.benchmark)


def _deviations(record: Record) -> NDArray[np.float64]:
    """Return the samples in percent from their median, sorted."""
    assert record.timing is not None
    return 100 * (np.sort(np.asarray(record.timing.samples)) / record.timing.summary.median - 1)


def _limits(deviations: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
    """Return the range in percent that all points but their outermost samples span, at least ±0.5 %."""
    low = min(float(np.quantile(values, HIDDEN_SHARE)) for values in deviations)
    high = max(float(np.quantile(values, 1 - HIDDEN_SHARE)) for values in deviations)
    margin = 0.04 * (high - low)
    return min(low - margin, -0.5), max(high + margin, 0.5)


def _draw_samples(axes: Axes, place: int, row: Row, values: NDArray[np.float64], low: float, high: float) -> None:
    inside = values[(values >= low) & (values <= high)]
    drawn = inside[np.linspace(0, len(inside) - 1, min(TICKS, len(inside))).round().astype(int)]
    # One path for all ticks of a row: not-a-number lifts the pen.
    gap = np.full(len(drawn), np.nan)
    x = np.column_stack((drawn, drawn, gap)).ravel()
    y = np.tile([place - 0.3, place + 0.3, np.nan], len(drawn))
    axes.plot(x, y, color=SERIES[0], alpha=0.55, linewidth=0.8)
    q1, q3 = np.quantile(values, (0.25, 0.75))
    axes.plot([q1, q3], [place, place], color=SERIES[0], linewidth=7, alpha=0.3, solid_capstyle="butt")
    assert row.record.timing is not None
    summary = row.record.timing.summary
    interval = [100 * (summary.ci_low / summary.median - 1), 100 * (summary.ci_high / summary.median - 1)]
    axes.plot(interval, [place, place], color=INK, linewidth=2.2, solid_capstyle="butt")
    outside = int(np.count_nonzero(values > high)), int(np.count_nonzero(values < low))
    text = f"{summary.count:,} samples" + "".join(
        f"\n{count:,} {where}" for count, where in zip(outside, ("slower →", "faster ←"), strict=True) if count
    )
    axes.annotate(
        text,
        (1, place),
        xycoords=("axes fraction", "data"),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        color=MUTED,
        fontsize=8,
        annotation_clip=False,
    )


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
