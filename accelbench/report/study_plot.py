"""Drawing of a study: training time and quality against the swept axis."""

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

from accelbench.output.format import clip, read
from accelbench.report.study import DASHED, Study, StudySweep
from accelbench.report.study_measures import StudyLine, StudyPoint, StudyQuantity
from accelbench.report.svg import (
    MARKERS,
    MUTED,
    SERIES,
    SURFACE,
    WIDTH,
    add_tooltips,
    inline_svg,
    legend_below,
    legend_height,
    plot_style,
)

PANEL = 2.5
"""Height of a panel in inches."""
FAR_APART = 6.0
"""Ratio of the largest to the smallest time above which the axis is logarithmic."""
CHARACTER = 0.024
"""Width of a character of a tick label as a share of the axis; overlapping labels are omitted."""
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.2, 1.6)), (0, (6, 2, 1.2, 2)), (0, (6, 2, 1.2, 2, 1.2, 2)))
STYLE: dict[str, Any] = {"markersize": 6, "markeredgecolor": SURFACE, "linewidth": 1.6}
HOLLOW: dict[str, Any] = {"markersize": 5, "markerfacecolor": "none", "linestyle": "", "markeredgewidth": 0.9}
"""Style of a time with compilation, which has the colour and the marker of the time without."""


@dataclass(frozen=True)
class Styles:
    """Line styles: colours and markers for the choices, dashes for the devices or runs.

    With a single choice, all three stand for the devices. With more devices than dashes, the two are exchanged.
    """

    sweep: StudySweep

    def of(self, line: StudyLine) -> dict[str, Any]:
        choice, place = self.sweep.choices.index(line.choice), self.sweep.places.index(line.where)
        by_color, by_dash = (place, choice) if self._places_colored else (choice, place)
        if len(self.sweep.choices) == 1:
            by_color = by_dash = place
        return STYLE | {
            "color": SERIES[by_color % len(SERIES)],
            "marker": MARKERS[by_color % len(MARKERS)],
            "linestyle": DASHES[by_dash % len(DASHES)],
        }

    @property
    def _places_colored(self) -> bool:
        return len(self.sweep.places) > DASHED

    def choices(self) -> list[Line2D]:
        """Return the legend entries of the choices, if there are several."""
        lines = {line.choice: line for line in self.sweep.lines} if len(self.sweep.choices) > 1 else {}
        return [self._entry(choice, self.of(line), not self._places_colored) for choice, line in lines.items()]

    def places(self) -> list[Line2D]:
        """Return the legend entries of the devices or runs, if there are several."""
        lines = {line.where: line for line in self.sweep.lines} if len(self.sweep.places) > 1 else {}
        if len(self.sweep.choices) == 1:
            return [Line2D([], [], label=clip(place), **self.of(line)) for place, line in lines.items()]
        return [self._entry(place, self.of(line), self._places_colored) for place, line in lines.items()]

    def compiled(self) -> list[Line2D]:
        """Return the legend entry of times with compilation, if there are any."""
        hollow = HOLLOW | {"marker": MARKERS[0], "markeredgecolor": MUTED}
        return [Line2D([], [], label="with compilation", **hollow)] if self.sweep.compiled else []

    def _entry(self, label: str, style: dict[str, Any], colored: bool) -> Line2D:
        """Return a legend entry with the colour and the marker of a line, or with its dashes only."""
        part = {"linestyle": "-"} if colored else {"color": MUTED, "marker": ""}
        return Line2D([], [], label=clip(label), **style | part)


def draw_studies(studies: Sequence[Study]) -> list[tuple[Study, list[tuple[StudySweep, Markup]]]]:
    """Return each study with its sweeps and their drawings, which have unique ids within a page."""
    return [
        (study, [(sweep, study_plot(sweep, f"study-{n}-{m}")) for m, sweep in enumerate(study.sweeps, start=1)])
        for n, study in enumerate(studies, start=1)
    ]


def study_plot(sweep: StudySweep, name: str) -> Markup:
    """Draw a panel for the training time, one for the quality metric (if any), and the legend below."""
    values = sorted({value for line in sweep.lines for value, _ in line.points})
    styles = Styles(sweep)
    with plot_style():
        legends = [entries for entries in (styles.compiled(), styles.places(), styles.choices()) if entries]
        below = 0.5 + sum(map(legend_height, legends))
        height = below + PANEL + 0.3
        figure = Figure(figsize=(WIDTH, height))
        for number, measure in enumerate(sweep.measures):
            axes = figure.add_axes((0.085 + 0.5 * number, below / height, 0.405, PANEL / height))
            drawn = [value for line in sweep.lines for value in _draw(axes, sweep.axis, line, measure, styles.of(line))]
            axes.set_title(clip(measure.title), loc="left", fontsize=9, color=MUTED)
            axes.set_xlabel(clip(sweep.axis_label))
            _scale_x(axes, values)
            _scale_y(axes, measure, drawn, from_zero=not number)
        legend_below(figure, legends)
        what = " and ".join(measure.title for measure in sweep.measures)
        models = " and ".join(sweep.benchmarks)
        title = f"{models} against the {sweep.axis_label}: {what}, on {', '.join(sweep.places)}"
        return inline_svg(figure, name, title)


def _draw(axes: Axes, axis: str, line: StudyLine, measure: StudyQuantity, style: dict[str, Any]) -> list[float]:
    """Draw the line with its error bars, and times with compilation as hollow markers; return all drawn values."""
    points = measure.values(line)
    if not points:
        return []
    x, y = [point.place for point in points], [point.value for point in points]
    (drawn,) = axes.plot(x, y, **style)
    name = ", ".join(filter(None, (line.choice, line.where)))
    add_tooltips(drawn, name, [f"{axis}={point.place:,}, {_value_text(point, measure.unit)}" for point in points])
    barred = [point for point in points if math.isfinite(point.low)]
    if barred:
        ends = [[point.value - point.low for point in barred], [point.high - point.value for point in barred]]
        at = [point.place for point in barred], [point.value for point in barred]
        axes.errorbar(*at, ends, fmt="none", ecolor=style["color"], elinewidth=1, capsize=2.5)
    compiled = [point for point in points if math.isfinite(point.with_compilation)]
    whole = [point.with_compilation for point in compiled]
    if compiled:
        hollow = HOLLOW | {"marker": style["marker"], "markeredgecolor": style["color"]}
        (drawn,) = axes.plot([point.place for point in compiled], whole, zorder=1, **hollow)
        marks = [f"{axis}={point.place:,}, {read(point.with_compilation, measure.unit)}" for point in compiled]
        add_tooltips(drawn, f"{name}, with compilation", marks)
    return y + whole


def _value_text(point: StudyPoint, unit: str) -> str:
    """Return the value of a point as text, with its interval if it has one."""
    bar = (point.low, point.high) if math.isfinite(point.low) else (None, None)
    return str(read(point.value, unit, *bar)) if unit else f"{point.value:.4g}"


def _scale_x(axes: Axes, values: Sequence[int]) -> None:
    """Set ticks at the values; make the axis logarithmic if their steps increase."""
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


def _scale_y(axes: Axes, measure: StudyQuantity, values: Sequence[float], from_zero: bool) -> None:
    """Set the y-axis: from zero or logarithmic for a time or rate, fitted to the values for a quality metric."""
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
