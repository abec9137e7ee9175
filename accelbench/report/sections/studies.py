"""Training benchmarks as the published studies show them: run time and quality against an axis that the points sweep.

Such an axis is units, layers, batch or devices; every device and backend of the run stands side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from accelbench.format import clip, read
from accelbench.report.rows import Group, Row, lines, params_text, varying_axes
from accelbench.report.section import InPage, Run, Section
from accelbench.report.svg import MARKERS, MUTED, SERIES, SURFACE, WIDTH, inline_svg, plot_style
from profiling.records.record import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

LEAST_VALUES = 2
SWEEPS = 3
"""The sweeps shown of one benchmark at most: those of the axes that take the most values."""
CHOICES = 8
"""The choices of the other axes that a sweep has at most, each once per device and backend."""
PANEL, ROW = 2.5, 0.19
"""The heights in inches of a panel, and of a row of the legend."""
FAR_APART = 6.0
"""The ratio beyond which times, as those of a CPU and a GPU, stand on a logarithmic axis."""
CHARACTER = 0.024
"""The part of the axis that a character of a value's name takes; a name that would touch the last one is left out."""
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.2, 1.6)), (0, (6, 2, 1.2, 2)), (0, (6, 2, 1.2, 2, 1.2, 2)))
STYLE: dict[str, Any] = {"markersize": 6, "markeredgecolor": SURFACE, "linewidth": 1.6}


@dataclass(frozen=True)
class Measure:
    """A quantity that is shown against the axis."""

    title: str
    unit: str
    of: Callable[[Record], float | None]
    deviation: Callable[[Record], float | None] = lambda record: None
    """The standard deviation over the repeats of the training, where there were any."""

    def points(self, line: Line) -> list[tuple[int, float, float]]:
        """Return axis, value and deviation of each point whose value is a number; NaN is for no deviation."""
        found = [(place, self.of(record), self.deviation(record)) for place, record in line.points]
        return [(x, y, math.nan if sd is None else sd) for x, y, sd in found if y is not None and math.isfinite(y)]


@dataclass(frozen=True)
class Line:
    """The points that differ in the swept axis alone."""

    where: str
    """The device and, where the benchmark ran on several, the backend."""
    choice: str
    """The values of the other axes that vary."""
    points: tuple[tuple[int, Record], ...]

    @property
    def swept(self) -> bool:
        return len({value for value, _ in self.points}) >= LEAST_VALUES


@dataclass(frozen=True)
class Sweep:
    """A benchmark's lines against one axis."""

    benchmark: str
    axis: str
    measures: tuple[Measure, ...]
    """The run time, then the quality where there is one."""
    lines: tuple[Line, ...]
    left_out: int
    """The number of choices of the other axes for which there is no room."""

    @property
    def places(self) -> list[str]:
        return list(dict.fromkeys(line.where for line in self.lines))

    @property
    def choices(self) -> list[str]:
        return list(dict.fromkeys(line.choice for line in self.lines))

    @property
    def repeated(self) -> bool:
        """Return whether a quality is the mean of several trainings."""
        found = (deviation for m in self.measures for line in self.lines for _, _, deviation in m.points(line))
        return any(map(math.isfinite, found))


@dataclass(frozen=True)
class Study:
    """A training benchmark on all devices and backends of the run."""

    benchmark: str
    places: tuple[str, ...]
    """The devices and, where there are several, backends."""
    common: str
    """The values that all its points share, in words."""
    sweeps: tuple[Sweep, ...]


def make_studies(groups: Iterable[Group]) -> list[Study]:
    """Return a study of each training benchmark whose points sweep a numeric axis."""
    benchmarks: dict[str, list[Row]] = {}
    for group in groups:
        benchmarks.setdefault(group.benchmark, []).extend(row for row in group.rows if row.training)
    studies = [_study(benchmark, rows) for benchmark, rows in benchmarks.items()]
    return [study for study in studies if study.sweeps]


def _study(benchmark: str, rows: Sequence[Row]) -> Study:
    time, quality = _time(rows), _quality(rows)
    rows = [row for row in rows if 0 < (time.of(row.record) or 0) < math.inf]
    places = _places(rows)
    varying = varying_axes(rows)
    common = [axis for row in rows[:1] for axis in row.record.point.values if axis not in varying]
    values = {axis: {v for row in rows if isinstance(v := row.record.point.values.get(axis), int)} for axis in varying}
    sweeps = []
    for axis in sorted(varying, key=lambda axis: -len(values[axis])):
        found = list(_lines(places, axis, varying))
        if any(line.swept for line in found):
            chosen = _choose(found)
            drawn = tuple(line for line in found if line.choice in chosen)
            measures = (time, quality) if quality and any(map(quality.points, drawn)) else (time,)
            left_out = len({line.choice for line in found}) - len(chosen)
            sweeps.append(Sweep(benchmark, axis, measures, drawn, left_out))
    text = " ".join(params_text(row.record, common) for row in rows[:1])
    return Study(benchmark, tuple(places), text, tuple(sweeps[:SWEEPS]))


def _time(rows: Iterable[Row]) -> Measure:
    """Return a training's time, or its rate where points train on different amounts of data: times do not compare."""
    records = [row.record for row in rows]
    if len({record.data and record.data.train for record in records}) <= 1:
        return Measure("time of the training", "s", _training)
    item = next((record.work.item for record in records if record.work), "items")
    return Measure(f"{item} per second", "", lambda record: record.rate("items"))


def _training(record: Record) -> float | None:
    """Return the seconds of one of the repeated trainings, less compilation, which long trainings make up for."""
    metrics, trainings = record.metrics, record.data.trainings if record.data else 1
    if "training" not in metrics:
        return None
    compilation = metrics["compile"].value if "compile" in metrics else 0.0
    return metrics["training"].value / trainings - compilation


def _quality(rows: Iterable[Row]) -> Measure | None:
    """Return the quality that the benchmark is judged by; None where it declares none."""
    headlines = (quality for row in rows for quality in row.record.qualities if quality.headline)
    headline = next(headlines, None)
    if headline is None:
        return None

    def value(of: str | None) -> Callable[[Record], float | None]:
        return lambda record: record.metrics[of].value if of in record.metrics else None

    return Measure(headline.name.replace("_", " "), "", value(headline.name), value(headline.deviation))


def _places(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the rows by device and, where there are several, backend."""
    several = len({row.record.point.backend for row in rows}) > 1
    places: dict[str, list[Row]] = {}
    for row in rows:
        where = f"{row.record.point.device} {row.record.point.backend}" if several else row.record.point.device
        places.setdefault(where, []).append(row)
    return places


def _lines(places: Mapping[str, Sequence[Row]], axis: str, varying: Sequence[str]) -> Iterator[Line]:
    """Yield a line per place and choice of the other axes; of a place that has no line, its single points."""
    for where, rows in places.items():
        found = [Line(where, choice, tuple(points)) for choice, points in lines(rows, axis, varying).items()]
        yield from [line for line in found if line.swept] or found


def _choose(found: Sequence[Line]) -> list[str]:
    """Return the choices of the other axes; of too many, take some that have a line, evenly through them."""
    choices = list(dict.fromkeys(line.choice for line in found))
    if len(choices) <= CHOICES:
        return choices
    swept = list(dict.fromkeys(line.choice for line in found if line.swept))
    count = min(CHOICES, len(swept))
    return [swept[round(place * (len(swept) - 1) / max(1, count - 1))] for place in range(count)]


@dataclass(frozen=True)
class Styles:
    """Colours and markers tell the choices apart and dashes the devices; of one choice, all three tell the devices."""

    sweep: Sweep

    def of(self, line: Line) -> dict[str, Any]:
        choices, places = self.sweep.choices, self.sweep.places
        number = choices.index(line.choice) if len(choices) > 1 else places.index(line.where)
        return STYLE | {
            "color": SERIES[number % len(SERIES)],
            "marker": MARKERS[number % len(MARKERS)],
            "linestyle": DASHES[places.index(line.where) % len(DASHES)],
        }

    def choices(self) -> list[Line2D]:
        """Return the legend's entries for the choices, where there are several."""
        lines = {line.choice: line for line in self.sweep.lines} if len(self.sweep.choices) > 1 else {}
        return [self._entry(choice, self.of(line) | {"linestyle": "-"}) for choice, line in lines.items()]

    def places(self) -> list[Line2D]:
        """Return the legend's entries for the devices, where there are several."""
        lines = {line.where: line for line in self.sweep.lines} if len(self.sweep.places) > 1 else {}
        dash_alone = {"color": MUTED, "marker": ""} if len(self.sweep.choices) > 1 else {}
        return [self._entry(place, self.of(line) | dash_alone) for place, line in lines.items()]

    def _entry(self, label: str, style: dict[str, Any]) -> Line2D:
        from matplotlib.lines import Line2D

        return Line2D([], [], label=clip(label), **style)


def study_plot(sweep: Sweep, name: str) -> Markup:
    """Draw a panel for the run time and one for the quality, where there is one, over the legend."""
    from matplotlib.figure import Figure

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
            axes.set_xlabel(clip(sweep.axis))
            _scale_x(axes, values)
            _scale_y(axes, measure, drawn, from_zero=not number)
        bottom = 0.0
        for entries, columns in legends:
            place = {"loc": "lower left", "bbox_to_anchor": (0.07, bottom / height)}
            figure.legend(handles=entries, ncols=columns, handlelength=2.6, borderpad=0.2, **place)
            bottom += ROW * math.ceil(len(entries) / columns)
        what = " and ".join(measure.title for measure in sweep.measures)
        title = f"{sweep.benchmark} against {sweep.axis}: {what}, on {', '.join(sweep.places)}"
        return inline_svg(figure, name, title)


def _columns(entries: Sequence[Line2D]) -> int:
    """Return how many entries fit beside each other."""
    longest = max(len(str(entry.get_label())) for entry in entries)
    return max(1, min(len(entries), int(7.0 / (0.6 + 0.075 * longest))))


def _draw(axes: Axes, line: Line, measure: Measure, style: dict[str, Any]) -> list[float]:
    """Draw the line, with bars of one standard deviation where there is one; return the values that were drawn."""
    points = measure.points(line)
    if not points:
        return []
    x, y, deviations = zip(*points, strict=True)
    axes.plot(x, y, **style)
    if any(map(math.isfinite, deviations)):
        axes.errorbar(x, y, deviations, fmt="none", ecolor=style["color"], elinewidth=1, capsize=2.5)
    return list(y)


def _scale_x(axes: Axes, values: Sequence[int]) -> None:
    """Name the values themselves on the axis; where they grow by factors, make it logarithmic."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

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
    """Begin a time or a rate at zero, or make it logarithmic where values are far apart; fit a quality's axis."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

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


def _content(studies: Sequence[Study], run: Run) -> Mapping[str, Any]:
    return {
        "drawn": [
            (study, [(sweep, study_plot(sweep, f"study-{n}-{m}")) for m, sweep in enumerate(study.sweeps, start=1)])
            for n, study in enumerate(studies, start=1)
        ]
    }


section = Section(find=lambda run: make_studies(run.groups), page=InPage(40, "studies", "Studies", _content))
