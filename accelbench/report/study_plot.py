"""The drawing of a training sweep: run time and quality side by side, a line for each choice on each device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from accelbench.format import clip, plain, read
from accelbench.report.study import Line, Measure, Sweep
from accelbench.report.svg import MARKERS, MUTED, SERIES, SURFACE, WIDTH, inline_svg, plot_style

PANEL, ROW = 2.5, 0.19
"""Inches high: a panel, and a row of the legend."""
FAR_APART = 6.0
"""Times in a greater ratio, as those of a CPU and a GPU are, stand on a logarithmic axis."""
CHARACTER = 0.024
"""The part of the axis that a character of a value's name takes; a name that would touch the last one is left out."""
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.2, 1.6)), (0, (6, 2, 1.2, 2)), (0, (6, 2, 1.2, 2, 1.2, 2)))
LINE: dict[str, Any] = {"markersize": 6, "markeredgecolor": SURFACE, "linewidth": 1.6}


@dataclass(frozen=True)
class Styles:
    """Colours and markers tell the choices apart and dashes the devices; of one choice, all three tell the devices."""

    sweep: Sweep

    def of(self, line: Line) -> dict[str, Any]:
        choices, places = self.sweep.choices, self.sweep.places
        number = choices.index(line.choice) if len(choices) > 1 else places.index(line.where)
        return LINE | {
            "color": SERIES[number % len(SERIES)],
            "marker": MARKERS[number % len(MARKERS)],
            "linestyle": DASHES[places.index(line.where) % len(DASHES)],
        }

    def choices(self) -> list[Line2D]:
        """The legend's entries for the choices, where there are several."""
        lines = {line.choice: line for line in self.sweep.lines} if len(self.sweep.choices) > 1 else {}
        return [self._entry(choice, self.of(line) | {"linestyle": "-"}) for choice, line in lines.items()]

    def places(self) -> list[Line2D]:
        """The legend's entries for the devices, where there are several."""
        lines = {line.where: line for line in self.sweep.lines} if len(self.sweep.places) > 1 else {}
        dash_alone = {"color": MUTED, "marker": ""} if len(self.sweep.choices) > 1 else {}
        return [self._entry(place, self.of(line) | dash_alone) for place, line in lines.items()]

    def _entry(self, label: str, style: dict[str, Any]) -> Line2D:
        return Line2D([], [], label=clip(label), **style)


def study_plot(sweep: Sweep, name: str) -> Markup:
    """A panel for the run time and one for the quality, where there is one, over the legend."""
    values = sorted({value for line in sweep.lines for value, _ in line.points})
    styles = Styles(sweep)
    with plot_style():
        legends = [(entries, _columns(entries)) for entries in (styles.places(), styles.choices()) if entries]
        below = 0.5 + ROW * sum(math.ceil(len(entries) / columns) for entries, columns in legends)
        height = below + PANEL + 0.3
        figure = Figure(figsize=(WIDTH, height))
        for number, measure in enumerate(sweep.measures):
            axes = figure.add_axes((0.085 + 0.5 * number, below / height, 0.405, PANEL / height))
            drawn = [value for line in sweep.lines for value in _draw(axes, line, measure, styles.of(line))]
            axes.set_title(clip(measure.title), loc="left", fontsize=9, color=MUTED)
            axes.set_xlabel(clip(plain(sweep.axis)))
            _scale_x(axes, values)
            _scale_y(axes, measure, drawn, from_zero=not number)
        bottom = 0.0
        for entries, columns in legends:
            place = {"loc": "lower left", "bbox_to_anchor": (0.07, bottom / height)}
            figure.legend(handles=entries, ncols=columns, handlelength=2.6, borderpad=0.2, **place)
            bottom += ROW * math.ceil(len(entries) / columns)
        what = " and ".join(measure.title for measure in sweep.measures)
        title = f"{plain(sweep.benchmark)} against {plain(sweep.axis)}: {what}, on {', '.join(sweep.places)}"
        return inline_svg(figure, name, title)


def _columns(entries: Sequence[Line2D]) -> int:
    """As many as fit beside each other."""
    longest = max(len(str(entry.get_label())) for entry in entries)
    return max(1, min(len(entries), int(7.0 / (0.6 + 0.075 * longest))))


def _draw(axes: Axes, line: Line, measure: Measure, style: dict[str, Any]) -> list[float]:
    """Draw the line, and a bar of one standard deviation either way where there is one; the values that were drawn."""
    points = measure.points(line)
    if not points:
        return []
    x, y, deviations = zip(*points, strict=True)
    axes.plot(x, y, **style)
    if any(map(math.isfinite, deviations)):
        axes.errorbar(x, y, deviations, fmt="none", ecolor=style["color"], elinewidth=1, capsize=2.5)
    return list(y)


def _scale_x(axes: Axes, values: Sequence[int]) -> None:
    """The values themselves are named; where they grow by factors, the axis is logarithmic."""
    grow = values[-1] - values[-2] > values[1] - values[0] and values[0] > 0
    if grow:
        axes.set_xscale("log", base=2)
    scale = math.log if grow else float
    ends = scale(values[-1]) - scale(values[0])
    named: list[int] = []
    for value in values:
        if not named or scale(value) - scale(named[-1]) > CHARACTER * (len(f"{value:,}") + 1) * ends:
            named.append(value)
    axes.xaxis.set_major_locator(FixedLocator(named))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())


def _scale_y(axes: Axes, measure: Measure, values: Sequence[float], from_zero: bool) -> None:
    """A time or a rate begins at zero, or is logarithmic where its values are far apart; a quality fills its panel."""
    if from_zero and min(values) > 0 and max(values) > FAR_APART * min(values):
        axes.set_yscale("log")
        axes.set_ylim(min(values) / 1.4, max(values) * 1.4)
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=20))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.tick_params(which="minor", length=0)
    else:
        axes.yaxis.set_major_locator(MaxNLocator(5))
        if from_zero:
            axes.set_ylim(0, 1.08 * max(values))
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: _short(value, measure.unit) if from_zero else f"{value:g}")
    )


def _short(value: float, unit: str) -> str:
    reading = read(value, unit)
    return f"{float(reading.value.replace(',', '')):,g} {reading.unit}".strip()
