"""The history as a document, and as a terminal shows it: for each machine a table of its points."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console
from rich.text import Text

from accelbench.export.document import Column, DocumentRow, ResultDocument
from accelbench.export.terminal import table_of
from accelbench.history.series import PointSeries
from accelbench.history.spread import LEAST_RUNS
from accelbench.output.format import read_figure

WIDTH = 120


def print_history(series: Sequence[PointSeries], passed_over: Sequence[str], to: Console) -> None:
    """Print a table for each machine, and a line for each run that was passed over."""
    for machine, points in groupby(series, lambda one: one.machine):
        to.print(table_of(document_of_history(list(points), ()), title=machine), width=min(WIDTH, to.width))
        to.print()
    robust = f"the robust standard deviation from run to run between changes, of {LEAST_RUNS} runs or more"
    to.print(Text(f"Spread: {robust}; disturbed ones are left out.", style="dim"))
    for sentence in passed_over:
        to.print(Text(f"passed over: {sentence}", style="yellow"))


def document_of_history(series: Sequence[PointSeries], passed_over: Sequence[str]) -> ResultDocument:
    """Return each point of each machine with its runs, its spread between them, and its changes of speed."""
    rows = []
    for one in series:
        latest = one.entries[-1].record if one.entries else None
        reading = read_figure(latest) if latest else None
        changes = [f"× {step.speed:.3f} from {step.when:%Y-%m-%d %H:%M} on ({step.run_id})" for step in one.steps]
        if trend := one.trend:
            during = f"{trend.days:.0f} days" if trend.days >= 2 else f"{trend.days * 24:.1f} hours"
            changes.append(f"drifts: × {trend.speed:.3f} over the last {during}")
        values = {
            "machine": one.machine,
            "runs": len(one.entries),
            "disturbed": one.disturbed,
            "figure": str(reading) if reading else None,
            "value": reading.figure if reading else None,
            "latest": latest.rate() if latest else None,
            "unit": latest.unit if latest else None,
            "spread": one.spread.deviation if one.spread else None,
            "history": changes or ["none seen" if one.spread else "too few runs to tell"],
            "changes": [{"speed": step.speed, "from": step.when.isoformat(), "run": step.run_id} for step in one.steps],
            "trend": {"speed": trend.speed, "days": trend.days} if trend else None,
        }
        rows.append(DocumentRow(str(one.point), values))
    columns = (
        Column("point", ("{name}",)),
        Column("runs", ("{runs}",), below=("+{disturbed} disturbed",), right=True, whole=True),
        Column("latest", ("{value}",), right=True, whole=True),
        Column("spread", ("{spread:.2%}",), right=True, whole=True),
        Column("changes of speed", ("{history}",)),
    )
    told = ["machine", "runs", "figure", "spread", "changes"]
    return ResultDocument("history", {"passed_over": passed_over}, rows, told, columns)
