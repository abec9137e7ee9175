"""Terminal output and document of the history: a table of points for each machine."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console
from rich.text import Text

from accelbench.export.document import Column, DocumentRow, ResultDocument
from accelbench.export.terminal import WIDTH, table_of
from accelbench.history.series import PointSeries
from accelbench.history.spread import LEAST_RUNS
from accelbench.output.format import counted, read_result


def print_history(series: Sequence[PointSeries], passed_over: Sequence[str], to: Console) -> None:
    """Print a table for each machine, and a line for each unreadable run."""
    for machine, points in groupby(series, lambda one: one.machine):
        to.print(table_of(document_of_history(list(points), ()), title=machine), width=min(WIDTH, to.width))
        to.print()
    robust = f"robust standard deviation between runs, between changes of speed, from at least {LEAST_RUNS} runs"
    to.print(Text(f"Spread: {robust}; noisy runs are left out.", style="dim"))
    for sentence in passed_over:
        to.print(Text(f"skipped: {sentence}", style="yellow"))


def document_of_history(series: Sequence[PointSeries], passed_over: Sequence[str]) -> ResultDocument:
    """Return a document with a row for each point of each machine: runs, spread between runs, changes of speed."""
    rows = []
    for one in series:
        latest = one.entries[-1].record if one.entries else None
        reading = read_result(latest) if latest else None
        changes = [f"× {step.speed:.3f} from {step.when:%Y-%m-%d %H:%M} on ({step.run_id})" for step in one.steps]
        if trend := one.trend:
            during = f"{trend.days:.0f} days" if trend.days >= 2 else f"{trend.days * 24:.1f} hours"
            changes.append(f"drift: × {trend.speed:.3f} over the last {during}")
        needed = counted(max(1, LEAST_RUNS - len(one.entries)), "more quiet run")
        values = {
            "machine": one.machine,
            "runs": len(one.entries),
            "disturbed": one.disturbed,
            "figure": str(reading) if reading else None,
            "value": reading.quantity if reading else None,
            "latest": latest.rate() if latest else None,
            "unit": latest.unit if latest else None,
            "spread": one.spread.deviation if one.spread else None,
            "history": changes or ["none" if one.spread else f"unknown: {needed} needed"],
            "changes": [{"speed": step.speed, "from": step.when.isoformat(), "run": step.run_id} for step in one.steps],
            "trend": {"speed": trend.speed, "days": trend.days} if trend else None,
        }
        rows.append(DocumentRow(str(one.point), values))
    columns = (
        Column("point", ("{name}",)),
        Column("runs", ("{runs}",), below=("+{disturbed} noisy",), right=True, whole=True),
        Column("latest", ("{value}",), right=True, whole=True),
        Column("spread", ("{spread:.2%}",), right=True, whole=True),
        Column("changes of speed", ("{history}",)),
    )
    markdown = ["machine", "runs", "figure", "spread", "changes"]
    return ResultDocument("history", {"passed_over": passed_over}, rows, markdown, columns)
