"""The history as a terminal shows it: for each machine a table of its points, then what could not be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from accelbench.format import UNKNOWN, percent, read_figure
from accelbench.history.series import Series, Step, Trend
from accelbench.history.spread import LEAST_RUNS

WIDTH = 120


def render_history(series: Sequence[Series], passed_over: Sequence[str], console: Console) -> None:
    """Print a table for each machine, and a line for each run that was passed over."""
    for machine, points in groupby(series, lambda one: one.machine):
        console.print(_table(machine, list(points)), width=min(WIDTH, console.width))
    console.print(
        Text(
            f"Spread: the robust standard deviation from run to run between changes, of {LEAST_RUNS} runs or more; "
            "disturbed ones are left out.",
            style="dim",
        )
    )
    for sentence in passed_over:
        console.print(Text(f"passed over: {sentence}", style="yellow"))


def _table(machine: str, series: list[Series]) -> Table:
    table = Table(title=machine, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("point", overflow="fold", min_width=12)
    table.add_column("runs", justify="right", no_wrap=True)
    table.add_column("latest", justify="right", no_wrap=True)
    table.add_column("spread", justify="right", no_wrap=True)
    table.add_column("changes of speed")
    for one in series:
        reading = read_figure(one.entries[-1].record) if one.entries else None
        table.add_row(
            Text(str(one.point)),
            f"{len(one.entries)}" + (f"\n+{one.disturbed} disturbed" if one.disturbed else ""),
            reading.figure if reading else UNKNOWN,
            percent(one.spread.deviation) if one.spread else UNKNOWN,
            Text("\n".join(_changes(one)) or ("none seen" if one.spread else "too few runs to tell")),
        )
    return table


def _changes(series: Series) -> Iterator[str]:
    yield from map(_step, series.steps)
    if series.trend:
        yield _trend(series.trend)


def _step(step: Step) -> str:
    return f"× {step.speed:.3f} from {step.when:%Y-%m-%d %H:%M} on ({step.run_id})"


def _trend(trend: Trend) -> str:
    during = f"{trend.days:.0f} days" if trend.days >= 2 else f"{trend.days * 24:.1f} hours"
    return f"drifts: × {trend.speed:.3f} over the last {during}"
