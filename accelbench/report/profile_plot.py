"""Drawing of a traced step: a stacked bar of its parts, and a second bar with xprof's breakdown of the same steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from accelbench.output.format import clip, percent, seconds
from accelbench.profiling.records.trace import Breakdown, Part, XprofSteps
from accelbench.report.svg import GRID, INK, MUTED, SERIES, SURFACE, WIDTH, inline_svg, plot_style

BLUE, ORANGE, GREEN, PURPLE, YELLOW, PINK = SERIES
PARTS: Mapping[Part, tuple[str, str]] = {
    "kernel": ("kernels", BLUE),
    "collective": ("collectives", PURPLE),
    "host_to_device": ("host to device", GREEN),
    "device_to_host": ("device to host", PINK),
    "compile": ("compilation", YELLOW),
    "input_wait": ("input wait", ORANGE),
    "host": ("host", MUTED),
    "idle": ("idle", GRID),
}
"""Name and colour of each part, in drawing order."""
XPROF_COLORS: Mapping[str, str] = {
    "device compute": BLUE,
    "device collectives": PURPLE,
    "device to device": GREEN,
    "output": PINK,
    "compilation": YELLOW,
    "input": ORANGE,
    "host compute": MUTED,
    "kernel launch": INK,
    "all others": GRID,
}
"""Colour of each of xprof's parts: the colour of the most similar part of `PARTS`."""

BAR, TITLE, ENTRY, GAP = 0.2, 0.24, 0.19, 0.16
"""Heights in inches of the bar, its title, a row of its legend, and the space between two bars."""
COLUMNS = 3
SWATCH = 0.1


@dataclass(frozen=True)
class Slice:
    """Part of the mean step."""

    label: str
    color: str
    seconds: float
    share: float

    @property
    def text(self) -> str:
        return f"{self.label} {seconds(self.seconds)}, {percent(self.share)}"


@dataclass(frozen=True)
class Bar:
    """Breakdown of the mean step."""

    title: str
    slices: tuple[Slice, ...]

    @property
    def shown(self) -> tuple[Slice, ...]:
        """Return the parts with a share above 0, which are drawn and listed in the legend."""
        return tuple(part for part in self.slices if part.share > 0)

    @property
    def rows(self) -> int:
        return max(1, math.ceil(len(self.shown) / COLUMNS))


def measured_bar(breakdown: Breakdown) -> Bar:
    """Return the breakdown from the trace's events."""
    title = f"mean of {breakdown.steps:,} traced steps, {seconds(breakdown.step_s)}"
    slices = [_slice(*PARTS[part], breakdown.parts.get(part, 0.0), breakdown.step_s) for part in PARTS]
    return Bar(title, tuple(slices))


def xprof_bar(steps: XprofSteps, covers: str = "") -> Bar:
    """Return xprof's breakdown with xprof's names; unknown parts have the colour of `all others`."""
    names = sorted(steps.parts, key=lambda name: [*XPROF_COLORS, name].index(name))
    title = f"xprof's breakdown, mean of {steps.steps:,} steps, {seconds(steps.step_s)}"
    slices = [_slice(clip(n), XPROF_COLORS.get(n, GRID), steps.parts[n], steps.step_s) for n in names]
    return Bar(title + (f" ({covers})" if covers else ""), tuple(slices))


def _slice(label: str, color: str, part_s: float, step_s: float) -> Slice:
    part_s = part_s if math.isfinite(part_s) and part_s > 0 else 0.0
    share = part_s / step_s if step_s > 0 else 0.0
    return Slice(label, color, part_s, share)


def step_bars(bars: Sequence[Bar], name: str, point: str) -> Markup:
    """Draw the bars one below the other, each with a legend."""
    heights = [TITLE + BAR + 0.08 + ENTRY * bar.rows for bar in bars]
    height = sum(heights) + GAP * (len(bars) - 1) + 0.04
    with plot_style():
        figure = Figure(figsize=(WIDTH, height))
        axes = figure.add_axes((0, 0, 1, 1))
        # The axes are in inches from the upper left corner, so that the height of a bar does not depend on its legend.
        axes.set_xlim(0, WIDTH)
        axes.set_ylim(height, 0)
        axes.set_axis_off()
        top = 0.0
        for bar, taken in zip(bars, heights, strict=True):
            axes.text(0, top + TITLE / 2, bar.title, va="center", color=INK, parse_math=False)
            _draw(axes, bar, top + TITLE)
            top += taken + GAP
        return inline_svg(figure, name, f"Breakdown of a step, {point}")


def _draw(axes: Axes, bar: Bar, top: float) -> None:
    total = sum(part.share for part in bar.shown) or 1.0
    left = 0.0
    for place, part in enumerate(bar.shown):
        width = WIDTH * part.share / max(total, 1.0)
        axes.add_patch(Rectangle((left, top), width, BAR, facecolor=part.color, edgecolor=SURFACE, linewidth=0.6))
        left += width
        row, column = divmod(place, COLUMNS)
        x, y = column * WIDTH / COLUMNS, top + BAR + 0.08 + ENTRY * (row + 0.5)
        axes.add_patch(Rectangle((x, y - SWATCH / 2), SWATCH, SWATCH, facecolor=part.color, edgecolor="none"))
        axes.text(x + SWATCH + 0.07, y, part.text, va="center", color=MUTED, fontsize=8.5, parse_math=False)
    if not bar.shown:
        axes.text(0, top + BAR / 2, "no time in any part", va="center", color=MUTED, fontsize=8.5)
