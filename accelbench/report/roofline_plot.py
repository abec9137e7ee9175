"""Roofline plot: attained FLOP/s against arithmetic intensity, with the roofs of one or several runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import NamedTuple

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from accelbench.output.format import clip, counted, digits, read
from accelbench.profiling.analysis.roofline import ridge
from accelbench.profiling.records.record import Record
from accelbench.report.measured_roofs import Roofline
from accelbench.report.svg import (
    INK,
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
    tick_label,
)

HEIGHT = 4.3
"""Height in inches of the axes and their labels."""
LABEL = 11.5
"""Height in points of a label next to a roof."""
SLOPE_SHOWN = 20.0
"""Factor below the ridge point down to which the memory roof is drawn at least."""
LineStyle = str | tuple[int, tuple[int, int]]
NOISY: LineStyle = (0, (6, 3))
"""Dashes of a roof that is a noisy ceiling."""
TOGETHER = len(SERIES)
"""Maximum number of rooflines in one drawing, each in its own colour."""


Mark = tuple[str, bool]
"""Marker of a point, and whether it is filled."""
MARKS: tuple[Mark, ...] = tuple((marker, filled) for filled in (True, False) for marker in MARKERS)


class AxesBox(NamedTuple):
    """Position of the axes in the drawing, in inches."""

    left: float
    bottom: float
    width: float
    height: float


class Colors:
    """Colours: one per dtype for a single roofline, one per run or device for several."""

    def __init__(self, drawn: Sequence[Roofline]) -> None:
        self.several = len(drawn) > 1
        first = drawn[0]
        names = [one.place for one in drawn] if self.several else first.dtypes
        self._colors = dict(zip(names, cycle(SERIES), strict=False))

    def of(self, roofline: Roofline, dtype: str | None) -> str:
        """Return the colour of a roof or a point; without a dtype, the colour of the memory roof."""
        if dtype is None:
            return self.of_memory(roofline)
        return self._colors[roofline.place if self.several else dtype]

    def of_memory(self, roofline: Roofline) -> str:
        return self._colors[roofline.place] if self.several else INK


def roofline_plot(drawn: Sequence[Roofline], name: str) -> Markup:
    """Draw rooflines: measured roofs solid, noisy ones dashed, vendors' peaks dotted, and a marker for each point.

    Markers identify the benchmark and the implementation; tooltips contain the point and its values. For colours, see
    `Colors`.
    """
    colors = Colors(drawn)
    names = _names([dot.row.record for one in drawn for dot in one.dots])
    markers = dict(zip(sorted(set(names.values())), MARKS, strict=False))
    labels = [(dtype, value, colors.of(one, dtype)) for one in drawn for dtype, value in one.compute.items()]
    with plot_style():
        legends = _legends(drawn, colors, markers)
        box = AxesBox(0.115 * WIDTH, 0.13 * HEIGHT, 0.645 * WIDTH, max(0.79 * HEIGHT, len(labels) * LABEL / 72))
        box = box._replace(bottom=box.bottom + sum(map(legend_height, legends)))
        height = box.bottom + box.height + 0.08 * HEIGHT
        figure = Figure(figsize=(WIDTH, height))
        axes = figure.add_axes((box.left / WIDTH, box.bottom / height, box.width / WIDTH, box.height / height))
        _scale(axes, drawn)
        for one in drawn:
            _draw_roofs(axes, one, colors, box)
            _draw_peaks(axes, one, colors)
            _draw_dots(axes, one, colors, names, markers)
        _label_right(axes, labels, box)
        legend_below(figure, legends)
        return inline_svg(figure, name, _title(drawn))


def _names(records: Sequence[Record]) -> dict[str, str]:
    """Return the marker's legend name of each point: the benchmark and its varying text values, except the dtype.

    With more names than markers, the name is the benchmark alone.
    """
    found: dict[str, dict[str, set[object]]] = {}
    for record in records:
        for axis, value in record.point.values.items():
            if isinstance(value, str) and value != record.bound.dtype:
                found.setdefault(record.point.benchmark, {}).setdefault(axis, set()).add(value)
    varying = {benchmark: [axis for axis in axes if len(axes[axis]) > 1] for benchmark, axes in found.items()}
    names = {}
    for point in (record.point for record in records):
        words = [str(point.values[axis]) for axis in varying.get(point.benchmark, ()) if axis in point.values]
        names[str(point)] = " ".join((point.benchmark, *words))
    if len(set(names.values())) <= len(MARKS):
        return names
    return {str(record.point): record.point.benchmark for record in records}


def _title(drawn: Sequence[Roofline]) -> str:
    count = sum(len(one.dots) for one in drawn)
    points = f"{counted(count, 'point')} under the roofs measured"
    places = ", ".join(one.place for one in drawn)
    return f"Rooflines of {places}: {points} in their runs" if len(drawn) > 1 else f"Roofline of the {places}: {points}"


def _legends(drawn: Sequence[Roofline], colors: Colors, markers: Mapping[str, Mark]) -> list[list[Line2D]]:
    """Return the legend of markers and lines, and one of the runs if there are several."""
    marks = [
        Line2D([], [], marker=mark, linestyle="", color=MUTED, fillstyle="full" if filled else "none", label=clip(name))
        for name, (mark, filled) in markers.items()
    ]
    if any(_roofs(one) - one.doubtful for one in drawn):
        marks.append(Line2D([], [], color=MUTED, label="measured roof"))
    if any(one.doubtful for one in drawn):
        marks.append(Line2D([], [], linestyle=NOISY, color=MUTED, label="noisy roof (doubtful)"))
    if any(one.peaks or one.bandwidth for one in drawn):
        marks.append(Line2D([], [], linestyle=":", color=MUTED, linewidth=1.2, label="vendor's peak"))
    places = [Line2D([], [], color=colors.of_memory(one), label=_with_memory(one)) for one in drawn]
    return [marks, places] if colors.several else [marks]


def _roofs(roofline: Roofline) -> set[str | None]:
    """Return the dtypes of the measured compute roofs, and None for a memory roof."""
    return {*roofline.compute, *([None] if roofline.memory is not None else [])}


def _style(roofline: Roofline, dtype: str | None) -> LineStyle:
    """Return the line style of a compute roof, or of the memory roof without a dtype."""
    return NOISY if dtype in roofline.doubtful else "-"


def _with_memory(roofline: Roofline) -> str:
    if roofline.memory is None:
        return clip(roofline.place)
    return f"{clip(roofline.place)}, memory {read(roofline.memory, 'B/s').quantity}"


def _scale(axes: Axes, drawn: Sequence[Roofline]) -> None:
    """Set logarithmic axes with limits and tick labels."""
    bends = [ridge(rate, one.memory) for one in drawn if one.memory for rate in one.compute.values()]
    floors = [rate / SLOPE_SHOWN for one in drawn if one.memory for rate in one.compute.values()]
    rates = [rate for one in drawn for rate in (*one.compute.values(), *one.peaks.values())]
    dots = [dot for one in drawn for dot in one.dots]
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(*_span([dot.intensity for dot in dots] + bends + [bend / SLOPE_SHOWN for bend in bends]))
    axes.set_ylim(*_span([dot.rate for dot in dots] + rates + floors))
    axes.set_xlabel("arithmetic intensity in FLOP/byte")
    axes.set_title("attained rate", loc="left", fontsize=9, color=MUTED)
    axes.xaxis.set_major_locator(LogLocator(numticks=12))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: digits(value, 1)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick_label(value, "FLOP/s")))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(which="minor", length=0)


def _span(values: Sequence[float]) -> tuple[float, float]:
    """Return limits at whole decades around the values, with a margin."""
    return 10 ** math.floor(math.log10(min(values)) - 0.15), 10 ** math.ceil(math.log10(max(values)) + 0.15)


def _draw_dots(
    axes: Axes, roofline: Roofline, colors: Colors, names: Mapping[str, str], markers: Mapping[str, Mark]
) -> None:
    for row, intensity, rate in roofline.dots:
        color = colors.of(roofline, row.record.bound.dtype)
        marker, filled = markers[names[str(row.record.point)]]
        style = {"markeredgecolor": SURFACE} if filled else {"markerfacecolor": "none", "markeredgewidth": 1.6}
        (dot,) = axes.plot(intensity, rate, marker, color=color, markersize=7, clip_on=False, **style)
        where = f"{clip(roofline.place)}, " if colors.several else ""
        text = f"{where}{read(rate, 'FLOP/s').quantity}, {digits(intensity)} FLOP/byte"
        add_tooltips(dot, str(row.record.point), [text])


def _draw_roofs(axes: Axes, roofline: Roofline, colors: Colors, box: AxesBox) -> None:
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    compute, memory = roofline.compute, roofline.memory
    if memory is not None:
        end = min(right, ridge(max(compute.values(), default=high), memory))
        slope, color = [left * memory, end * memory], colors.of_memory(roofline)
        axes.plot([left, end], slope, linestyle=_style(roofline, None), color=color, linewidth=1.6)
        if not colors.several:
            _label_slope(axes, memory, max(left, low / memory), end, box)
    for dtype, value in compute.items():
        start = ridge(value, memory) if memory is not None else left
        style, color = _style(roofline, dtype), colors.of(roofline, dtype)
        axes.plot([max(left, start), right], [value, value], linestyle=style, color=color, linewidth=1.6)


def _label_slope(axes: Axes, memory: float, start: float, end: float, box: AxesBox) -> None:
    """Label the memory roof along its slope."""
    at = start * (end / start) ** 0.42
    axes.annotate(
        f"memory {read(memory, 'B/s').quantity}",
        (at, at * memory),
        xytext=(-5, 5),
        textcoords="offset points",
        rotation=math.degrees(math.atan2(*_slope(axes, box))),
        rotation_mode="anchor",
        ha="center",
        color=INK,
        fontsize=8.5,
    )


def _slope(axes: Axes, box: AxesBox) -> tuple[float, float]:
    """Return the height and the width in inches of one decade."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    return box.height / math.log10(high / low), box.width / math.log10(right / left)


def _label_right(axes: Axes, labels: Sequence[tuple[str, float, str]], box: AxesBox) -> None:
    """Label each roof (dtype, rate, colour) at its right end, with a minimum distance between labels."""
    right, high = axes.get_xlim()[1], axes.get_ylim()[1]
    spacing = LABEL / (_slope(axes, box)[0] * 72)  # a line of text, in decades
    ordered = sorted(labels, key=lambda label: label[1])
    for (dtype, value, color), place in zip(
        ordered, _spread([math.log10(value) for _, value, _ in ordered], spacing, math.log10(high)), strict=True
    ):
        axes.annotate(
            f"{dtype} {read(value, 'FLOP/s').quantity}",
            (right, 10**place),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color=color,
            fontsize=8.5,
            annotation_clip=False,
        )


def _spread(places: Sequence[float], spacing: float, top: float) -> list[float]:
    """Return the ascending places, moved to at least that spacing and at most `top`."""
    found: list[float] = []
    for place in places:
        found.append(max(place, found[-1] + spacing) if found else place)
    for number in reversed(range(len(found))):
        above = found[number + 1] - spacing if number + 1 < len(found) else top
        found[number] = min(found[number], above)
    return found


def _draw_peaks(axes: Axes, roofline: Roofline, colors: Colors) -> None:
    left, right = axes.get_xlim()
    peaks, bandwidth = roofline.peaks, roofline.bandwidth
    if bandwidth is not None:
        end = min(right, ridge(max(peaks.values()), bandwidth)) if peaks else right
        color = colors.of_memory(roofline) if colors.several else MUTED
        axes.plot([left, end], [left * bandwidth, end * bandwidth], ":", color=color, linewidth=1.2)
    for dtype, value in peaks.items():
        start = ridge(value, bandwidth) if bandwidth else left
        axes.plot([max(left, start), right], [value, value], ":", color=colors.of(roofline, dtype), linewidth=1.2)
