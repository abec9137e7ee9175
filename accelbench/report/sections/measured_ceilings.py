"""The measured ceilings: the best rates of each device in the run, and the roofline of what stayed below them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from accelbench.format import digits, read
from accelbench.report.rows import Row
from accelbench.report.section import InPage, Run, Section
from accelbench.report.svg import INK, MARKERS, MUTED, SERIES, SURFACE, WIDTH, inline_svg, plot_style
from profiling.analysis.roofline import Ceiling, ridge, share_of_peak
from profiling.records.record import Record
from profiling.records.work import UNITS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIGURE_SIZE = (WIDTH, 4.3)
SLOPE_SHOWN = 20.0
"""The factor below its bend down to which the memory roof is drawn, where every point lies to the right of it."""


def _content(measured: Sequence[Ceiling], run: Run) -> Mapping[str, Any]:
    devices = dict.fromkeys(record.point.device for record in run.records)
    drawings = [(device, roofline(device, run.rows, measured)) for device in devices]
    return {
        "readings": [(ceiling, read(ceiling.value, UNITS[ceiling.figure])) for ceiling in measured],
        "rooflines": [(device, drawing) for device, drawing in drawings if drawing],
        "share_of_peak": share_of_peak,
    }


def roofline(device: str, rows: Sequence[Row], measured: Sequence[Ceiling]) -> Markup | None:
    """Draw attained FLOP/s over arithmetic intensity, under measured roofs and the vendor's; None without a point.

    A point is a benchmark on one device whose flops and bytes are both known; the roofs are those of that whole device.
    A ceiling in doubt is no roof.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    rows = [row for row in rows if row.record.point.device == device and _on_one_device(row.record)]
    points = [
        (row, intensity, rate)
        for row in rows
        if row.record.bound.cores == "all" and (intensity := row.intensity) and (rate := row.record.rate("flops"))
    ]
    roofs = [c for c in measured if c.device == device and c.cores == "all" and not c.doubt]
    memory = next((c.value for c in roofs if c.figure == "bytes"), None)
    compute = {c.dtype: c.value for c in roofs if c.dtype is not None}
    if not points or (memory is None and not compute):
        return None
    dtypes = list(dict.fromkeys([*compute, *(str(row.record.bound.dtype) for row, _, _ in points)]))
    colors = dict(zip(dtypes, cycle(SERIES), strict=False))
    markers = dict(zip(dict.fromkeys(row.record.point.benchmark for row, _, _ in points), cycle(MARKERS), strict=False))
    peaks, bandwidth = _vendor_peaks(rows, colors)
    with plot_style():
        figure = Figure(figsize=FIGURE_SIZE)
        axes = figure.add_axes((0.115, 0.13, 0.645, 0.79))
        axes.set_xscale("log")
        axes.set_yscale("log")
        bends = [ridge(rate, memory) for rate in compute.values()] if memory else []
        left, right = _span([i for _, i, _ in points] + bends + [bend / SLOPE_SHOWN for bend in bends])
        floors = [rate / SLOPE_SHOWN for rate in compute.values()] if memory else []
        low, high = _span([rate for _, _, rate in points] + [*compute.values(), *peaks.values()] + floors)
        axes.set_xlim(left, right)
        axes.set_ylim(low, high)
        _draw_roofs(axes, compute, memory, colors, left, right)
        _draw_peaks(axes, peaks, bandwidth, colors, left, right)
        alike: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for row, intensity, rate in points:
            style = colors[str(row.record.bound.dtype)], markers[row.record.point.benchmark]
            alike.setdefault(style, []).append((intensity, rate))
        for (color, marker), places in alike.items():
            x, y = zip(*places, strict=True)
            axes.plot(x, y, marker, color=color, markeredgecolor=SURFACE, markersize=7, clip_on=False)
        _draw_legend(figure, axes, markers, bool(peaks or bandwidth))
        axes.set_xlabel("arithmetic intensity in FLOP/byte")
        axes.set_title("attained rate", loc="left", fontsize=9, color=MUTED)
        axes.xaxis.set_major_locator(LogLocator(numticks=12))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: digits(value, 1)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.tick_params(which="minor", length=0)
        count = f"{len(points)} point{'s' * (len(points) != 1)}"
        title = f"Roofline of the {device}: {count} under the roofs measured in this run"
        return inline_svg(figure, f"roofline-{device}", title)


def _on_one_device(record: Record) -> bool:
    return record.layout.computing_devices == 1


def _span(values: Sequence[float]) -> tuple[float, float]:
    """Return whole decades around everything that is drawn, with room to breathe."""
    return 10 ** math.floor(math.log10(min(values)) - 0.15), 10 ** math.ceil(math.log10(max(values)) + 0.15)


def _short(value: float) -> str:
    reading = read(value, "FLOP/s")
    return f"{digits(float(reading.value.replace(',', '')), 1)} {reading.unit}"


def _draw_roofs(
    axes: Axes,
    compute: Mapping[str, float],
    memory: float | None,
    colors: Mapping[str, str],
    left: float,
    right: float,
) -> None:
    low, high = axes.get_ylim()
    if memory is not None:
        top = max(compute.values(), default=high)
        end = min(right, ridge(top, memory))
        axes.plot([left, end], [left * memory, end * memory], color=INK, linewidth=1.6)
        reading = read(memory, "B/s")
        # The label follows the slope, from where the roof enters the drawing.
        start = max(left, low / memory)
        at = start * (end / start) ** 0.42
        axes.annotate(
            f"memory {reading.value} {reading.unit}",
            (at, at * memory),
            xytext=(-5, 5),
            textcoords="offset points",
            rotation=math.degrees(math.atan2(*_slope(axes))),
            rotation_mode="anchor",
            ha="center",
            color=INK,
            fontsize=8.5,
        )
    for dtype, value in compute.items():
        start = ridge(value, memory) if memory is not None else left
        axes.plot([max(left, start), right], [value, value], color=colors[dtype], linewidth=1.6)
    _label_right(axes, compute, right, colors)


def _slope(axes: Axes) -> tuple[float, float]:
    """Return the rise and the run on paper of one decade on both axes."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    box, (width, height) = axes.get_position(), FIGURE_SIZE
    return box.height * height / math.log10(high / low), box.width * width / math.log10(right / left)


def _label_right(axes: Axes, values: Mapping[str, float], right: float, colors: Mapping[str, str]) -> None:
    """Label each roof at its right end, pushed apart where two would touch."""
    decade = _slope(axes)[0] * 72
    spacing = 11.5 / decade  # a line of text, in decades
    last = -math.inf
    for dtype, value in sorted(values.items(), key=lambda item: item[1]):
        place = max(math.log10(value), last + spacing)
        last = place
        reading = read(value, "FLOP/s")
        axes.annotate(
            f"{dtype} {reading.value} {reading.unit}",
            (right, 10**place),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color=colors[dtype],
            fontsize=8.5,
            annotation_clip=False,
        )


def _vendor_peaks(rows: Sequence[Row], dtypes: Collection[str]) -> tuple[dict[str, float], float | None]:
    """Return the vendor's known peaks: of these dtypes' arithmetic in FLOP/s, and of memory in byte/s."""
    known = [(row.of_peak.figure, str(row.record.bound.dtype), row.of_peak.bound) for row in rows]
    flops = {dtype: bound for figure, dtype, bound in known if figure == "flops" and bound and dtype in dtypes}
    return flops, next((bound for figure, _, bound in known if figure == "bytes"), None)


def _draw_peaks(
    axes: Axes,
    peaks: Mapping[str, float],
    bandwidth: float | None,
    colors: Mapping[str, str],
    left: float,
    right: float,
) -> None:
    if bandwidth is not None:
        end = min(right, ridge(max(peaks.values()), bandwidth)) if peaks else right
        axes.plot([left, end], [left * bandwidth, end * bandwidth], "--", color=MUTED, linewidth=1)
    for dtype, value in peaks.items():
        start = ridge(value, bandwidth) if bandwidth else left
        axes.plot([max(left, start), right], [value, value], "--", color=colors[dtype], linewidth=1)


def _draw_legend(figure: Figure, axes: Axes, markers: Mapping[str, str], has_peaks: bool) -> None:
    handles = [axes.plot([], [], marker, color=MUTED, label=name)[0] for name, marker in markers.items()]
    handles += axes.plot([], [], "-", color=MUTED, label="measured roof")
    if has_peaks:
        handles += axes.plot([], [], "--", color=MUTED, linewidth=1, label="vendor's peak")
    figure.legend(handles=handles, loc="lower left", bbox_to_anchor=(0.775, 0.1))


section = Section(find=lambda run: run.ceilings, page=InPage(30, "ceilings", "Ceilings", _content))
