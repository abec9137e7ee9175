"""Section of failed and skipped points: reasons, and on the page the commands that repeat them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from accelbench.profiling.records.record import Record
from accelbench.report.rows import point_text, shell_command
from accelbench.report.section import InPage, Run, Section

STYLES = {"failed": "bold red", "skipped": "yellow"}
TAIL_LINES, TAIL_SHOWN = 40, 3
"""Numbers of last lines of a failed point's output shown on the page and on the terminal."""
SHOWN, SHOWN_IN_TERMINAL = 500, 100
"""Maximum numbers of points on the page and on the terminal."""


def _not_measured(run: Run) -> Sequence[Record]:
    return [record for status in STYLES for record in run.of_status(status)]


def _more(run: Run, shown: int) -> int:
    """Return the number of failed and skipped points beyond the first `shown`."""
    return run.counts.failed + run.counts.skipped - shown


def _content(run: Run, _: Run) -> Mapping[str, Any]:
    return {
        "shown": _not_measured(run)[:SHOWN],
        "count_of_others": _more(run, SHOWN),
        "TAIL_LINES": TAIL_LINES,
        "command": lambda record: shell_command(record, run.info.settings),
    }


def _print(run: Run, console: Console) -> None:
    for record in _not_measured(run)[:SHOWN_IN_TERMINAL]:
        name = f"{record.point.benchmark} {record.point.device} {point_text(record)}".strip()
        reason = record.reason or "no reason recorded"
        console.print(Text.assemble((record.status, STYLES[record.status]), f" {name}: {reason}"), soft_wrap=True)
        if record.status == "failed":
            for line in record.output_tail[-TAIL_SHOWN:]:
                console.print(Text(f"    {line}", style="dim"), no_wrap=True, overflow="ellipsis")
    if (more := _more(run, SHOWN_IN_TERMINAL)) > 0:
        console.print(Text(f"{more:,} more in records.csv", style="dim"))


section = Section(
    find=lambda run: run if run.counts.failed or run.counts.skipped else None,
    page=InPage("failed_and_skipped.html", "unmeasured", "Failed and skipped", _content),
    terminal=_print,
)
