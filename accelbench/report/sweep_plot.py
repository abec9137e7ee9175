"""Plot of a benchmark's result against a swept size in bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import cycle

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from accelbench.output.format import read
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.text import format_bytes
from accelbench.report.rows import Group, Row, lines
from accelbench.report.svg import (
    MARKERS,
    MUTED,
    SERIES,
    SURFACE,
    WIDTH,
    add_tooltips,
    inline_svg,
    plot_style,
    tick_label,
)

MOST_LINES = 16
"""Maximum number of lines, evenly spaced over the choices of the other axes."""
LEAST_SIZES = 4
"""Minimum number of sizes for a plot."""
TICKS = 12
"""Maximum number of labelled sizes on the axis."""
CROWDED = 0.06
"""Half the distance, as a share of the width, below which labels of caches are placed at different heights."""

SweepLine = tuple[str, list[tuple[float, float]]]
"""Label of a line (the common values of its points), and its points (bytes, rate or seconds) in order."""


def sweep(group: Group, environment: Environment, name: str) -> Markup | None:
    """Draw the results against the size, a line for each choice of the other axes.

    Both axes are logarithmic, and the machine's caches are marked. Returns None without a size axis or with fewer than
    `LEAST_SIZES` sizes.
    """
    axis = group.size_axis
    if axis is None or len({row.record.point.values.get(axis) for row in group.rows}) < LEAST_SIZES:
        return None
    drawn = _evenly(list(_lines(group, axis, group.rows[0].record.sizes[axis])))
    sizes = [place for _, points in drawn for place, _ in points]
    values = [value for _, points in drawn for _, value in points]
    if not values:
        return None
    unit = group.rows[0].record.unit
    with plot_style():
        figure = Figure(figsize=(WIDTH, 3.6))
        axes = figure.add_axes((0.115, 0.14, 0.865, 0.70))
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlim(min(sizes) / 1.25, max(sizes) * 1.25)
        axes.set_ylim(*_span(values))
        _mark_caches(axes, group.device, environment)
        for (label, points), color, marker in zip(drawn, cycle(SERIES), cycle(MARKERS), strict=False):
            x, y = zip(*points, strict=True)
            (line,) = axes.plot(x, y, color=color, marker=marker, markersize=4.5, markeredgecolor=SURFACE, label=label)
            marks = [f"{format_bytes(size)}, {read(value, unit).quantity}" for size, value in points]
            add_tooltips(line, label or group.benchmark, marks)
        if len(drawn) > 1:
            axes.legend(loc="best")
        axes.set_xlabel("size")
        axes.set_title(_what(group.rows[0]), loc="left", fontsize=9, color=MUTED, pad=22)
        axes.xaxis.set_major_locator(FixedLocator(_size_ticks(min(sizes), max(sizes))))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_bytes(value)))
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=20))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick_label(value, unit)))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.tick_params(which="minor", length=0)
        reach = f"from {format_bytes(min(sizes))} to {format_bytes(max(sizes))}"
        title = f"{group.benchmark} on {group.device} against size, {reach}"
        return inline_svg(figure, name, title)


def _lines(group: Group, axis: str, unit: int) -> Iterator[SweepLine]:
    """Yield a line for each choice of the other axes, without points that have no rate."""
    for label, points in lines(group.rows, axis, group.varying).items():
        rates = [(float(amount * unit), record.rate()) for amount, record in points]
        known = [(size, rate) for size, rate in rates if rate and math.isfinite(rate)]
        if known:
            yield label, known


def _evenly(lines: Sequence[SweepLine]) -> list[SweepLine]:
    """Return at most `MOST_LINES` evenly spaced lines, including the first and the last."""
    count = min(MOST_LINES, len(lines))
    return [lines[round(place * (len(lines) - 1) / max(1, count - 1))] for place in range(count)]


def _what(row: Row) -> str:
    """Return the title of the y-axis."""
    if row.record.figure != "time":
        return "rate"
    work = row.record.work
    return f"time per item ({work.item})" if work and work.items else "time of one execution"


def _span(values: Sequence[float]) -> tuple[float, float]:
    """Return the limits of the y-axis, with a margin."""
    return min(values) / 1.5, max(values) * 1.5


def _size_ticks(least: float, most: float) -> list[float]:
    """Return powers of two in equal steps."""
    first, last = math.ceil(math.log2(least)), math.floor(math.log2(most))
    step = max(1, -(-(last - first + 1) // TICKS))
    return [float(2**power) for power in range(first, last + 1, step)]


def _caches(device: str, environment: Environment) -> Iterator[tuple[str, int]]:
    """Yield the name and size of each known data cache of the device."""
    if device == "cpu":
        cpu = environment.cpu
        by_kind = {kind.name: kind.caches for kind in cpu.kinds}
        for cache in by_kind.get(cpu.one_core_kind or "", cpu.caches):
            if cache.kind != "Instruction":
                yield f"L{cache.level}", cache.size_bytes
    elif device == "gpu" and environment.gpus and environment.gpus[0].l2_bytes:
        yield "L2", environment.gpus[0].l2_bytes


def _mark_caches(axes: Axes, device: str, environment: Environment) -> None:
    left, right = axes.get_xlim()
    last, raised = -math.inf, 0
    for name, end in sorted(_caches(device, environment), key=lambda cache: cache[1]):
        if not left < end < right:
            continue
        place = math.log(end / left) / math.log(right / left)
        raised = (raised + 1) % 2 if place - last < CROWDED * 2 else 0
        last = place
        axes.axvline(end, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate(
            f"{name} {format_bytes(end)}",
            (end, 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, 3 + 10 * raised),
            textcoords="offset points",
            ha="center",
            color=MUTED,
            fontsize=8,
            annotation_clip=False,
        )
