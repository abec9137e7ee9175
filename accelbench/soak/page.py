"""Output of a soak: `soak.json`, the page `soak.html`, and the terminal."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from markupsafe import Markup
from rich.console import Console
from rich.text import Text

from accelbench.errors import UserError, reason_of
from accelbench.export.terminal import new_table
from accelbench.output.format import counted, digits, percent, read, seconds
from accelbench.profiling.files import replace_file
from accelbench.report.page import templates
from accelbench.report.svg import MARKERS, MUTED, SERIES, WIDTH, add_tooltips, inline_svg, legend_below, plot_style
from accelbench.soak.answer import SoakAnswer, SoakSeries, SoakUnit

SHOWN_UNITS = 16
"""Maximum number of units in the terminal; the page has all."""
ROW = 0.19
"""Height in inches of a legend's row."""
MOST_LINES = 12
"""Maximum number of lines in a drawing."""
TITLES = {
    "temperature": "Temperature",
    "clock": "Clock",
    "sm_clock": "Clock of the multiprocessors",
    "memory_clock": "Clock of the memory",
    "power": "Power",
    "load": "Load of the CPUs",
    "utilization": "Utilisation of the GPU",
}
"""Titles of sensors by the part of their name after the device; sensors with equal titles and units share a drawing."""


def write_answer(answer: SoakAnswer, folder: Path) -> Path:
    """Write `soak.json` and `soak.html` into the folder, and return the path of the page; UserError if it fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        text = answer.model_dump_json(indent=1)
        replace_file(folder / "soak.json", lambda new: new.write_text(f"{text}\n", encoding="utf-8"))
        page = render_answer(answer)
        replace_file(folder / "soak.html", lambda new: new.write_text(page, encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot write {folder}: {reason_of(error)}") from None
    return folder / "soak.html"


def render_answer(answer: SoakAnswer) -> str:
    """Return the page as HTML text."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it warns where the user has no home for its cache
    environment = templates(Path(__file__).parent, Path(__file__).parent.parent / "report")
    environment.filters |= {"seconds": seconds, "counted": counted}
    charts = [*_throughput_charts(answer.series), *_sensor_charts(answer.series)]
    return environment.get_template("soak.html").render(answer=answer, charts=charts, units=_rows(answer.units))


def print_answer(answer: SoakAnswer, console: Console) -> None:
    """Print the units, wrong and odd ones first, and the wrong results."""
    rows = sorted(_rows(answer.units), key=lambda row: (-row["wrong"], not row["problem"]))
    table = new_table("unit", "results", "wrong", "throughput")
    for row in rows[:SHOWN_UNITS]:
        style = "bold red" if row["wrong"] or row["problem"] else ""
        cells = (row["name"], f"{row['passes']:,}", f"{row['wrong']:,}", row["problem"] or "\n".join(row["rates"]))
        table.add_row(*(Text(cell, style=style) for cell in cells))
    console.print(table)
    if len(rows) > SHOWN_UNITS:
        console.print(Text(f"{len(rows) - SHOWN_UNITS:,} more units: soak.html", style="dim"))
    for wrong in answer.wrong[:SHOWN_UNITS]:
        console.print(Text(wrong.sentence, style="red"))
    for unit in answer.units[:1]:
        for point, reason in unit.skipped.items():
            console.print(Text(f"{point} did not run: {reason}", style="yellow"))
    for reason in answer.missing:
        console.print(Text(reason, style="dim"))


def _rows(units: Sequence[SoakUnit]) -> list[dict[str, Any]]:
    """Return the units as rows: passes, and the throughput of each point with its share of the median of like units."""
    rates: dict[tuple[str, str], list[float]] = {}
    for unit in units:
        for point in unit.points:
            if point.rate:
                rates.setdefault((unit.model, point.point), []).append(point.rate)
    return [
        {
            "name": unit.name,
            "model": unit.model,
            "passes": unit.passes,
            "wrong": unit.wrong_passes,
            "problem": unit.problem,
            "skipped": unit.skipped,
            "rates": [
                f"{point.point}: {read(point.rate, point.unit).quantity}"
                f"{_relative(point.rate, rates[unit.model, point.point])}"
                for point in unit.points
                if point.rate
            ],
        }
        for unit in units
    ]


def _relative(rate: float, of_all: Sequence[float]) -> str:
    if len(of_all) < 2:
        return ""
    change = rate / median(of_all) - 1
    return f" ({'+' if change >= 0 else '−'}{percent(abs(change))})"


def _throughput_charts(series: Sequence[SoakSeries]) -> list[dict[str, Any]]:
    """Return a drawing of each device: the throughput of its points relative to their medians."""
    charts = []
    kept = [each for each in series if each.kind == "throughput" and each.values]
    for number, device in enumerate(dict.fromkeys(each.device for each in kept)):
        lines = [
            Line(
                f"{each.name}: median {read(median(each.values), each.unit).quantity}",
                each.times,
                [100 * value / median(each.values) for value in each.values],
            )
            for each in kept
            if each.device == device
        ]
        title = f"Throughput of {'all logical CPUs together' if device == 'CPU' else device} over time"
        charts.append({"title": title, "svg": _chart(lines, "% of the median", f"throughput-{number}", title)})
    return charts


def _sensor_charts(series: Sequence[SoakSeries]) -> list[dict[str, Any]]:
    """Return a drawing of each kind of sensor, with a line for each sensor."""
    groups: dict[tuple[str, str], list[Line]] = {}
    for each in series:
        if each.kind == "sensor" and each.values:
            parts = each.name.split(".")
            label = f"{parts[0].upper()}{f' {parts[2]}' if len(parts) > 2 else ''}"
            title = TITLES.get(parts[1], parts[1].replace("_", " ").capitalize())
            groups.setdefault((title, each.unit), []).append(Line(label, each.times, each.values))
    return [
        {"title": f"{title} over time", "svg": _chart(lines, unit, f"sensor-{number}", f"{title} over time")}
        for number, ((title, unit), lines) in enumerate(groups.items())
    ]


class Line:
    """Values over time with their label."""

    def __init__(self, label: str, times: Sequence[float], values: Sequence[float]) -> None:
        self.label, self.times, self.values = label, times, values


def _chart(lines: Sequence[Line], unit: str, name: str, title: str) -> Markup:
    """Draw lines over time; beyond MOST_LINES only those with the lowest and the highest values."""
    from matplotlib.figure import Figure

    if len(lines) > MOST_LINES:
        ordered = sorted(lines, key=lambda line: max(line.values))
        lines = [*ordered[: MOST_LINES // 2], *ordered[-MOST_LINES // 2 :]]
    last = max(line.times[-1] for line in lines)
    scale, axis = (3600, "hours") if last > 3 * 3600 else (60, "minutes") if last > 180 else (1, "seconds")
    columns = 1 if max(len(line.label) for line in lines) > 40 else 4
    below = ROW * -(-len(lines) // columns) + 0.55
    with plot_style():
        figure = Figure(figsize=(WIDTH, 2.0 + below))
        axes = figure.add_axes((0.07, below / (2.0 + below), 0.91, 1.85 / (2.0 + below)))
        drawn = []
        for number, line in enumerate(lines):
            marker = MARKERS[number // len(SERIES)] if number >= len(SERIES) else ""
            (found,) = axes.plot(
                [when / scale for when in line.times],
                line.values,
                color=SERIES[number % len(SERIES)],
                label=line.label,
                linewidth=1.5,
                marker=marker or ("o" if len(line.times) == 1 else None),
                markersize=3,
            )
            lowest, highest = digits(min(line.values)), digits(max(line.values))
            add_tooltips(found, f"{line.label}, {lowest}–{highest} {unit}", ())
            drawn.append(found)
        axes.set_xlabel(f"{axis} since the start of the load")
        axes.set_ylabel(unit, color=MUTED)
        axes.set_xlim(0, max(last / scale, 1e-9))
        axes.margins(y=0.15)
        low, high = axes.get_ylim()
        if high - low < 0.04 * abs(high):  # a constant value is no cliff
            axes.set_ylim(0.98 * high - 0.02 * abs(high), 1.02 * high)
        if unit == "%":
            axes.set_ylim(0, 105)
        axes.ticklabel_format(axis="y", useOffset=False, style="plain")
        legend_below(figure, [drawn])
        return inline_svg(figure, name, f"{title}: {len(lines)} lines")
