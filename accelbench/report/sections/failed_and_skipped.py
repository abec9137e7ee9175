"""The points that failed or were skipped: why, and in the page how to try them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from accelbench.report.rows import point_text, reproduce
from accelbench.report.section import InPage, InTerminal, Run, Section
from profiling.records.record import Record

STYLES = {"failed": "bold red", "skipped": "yellow"}
TAIL_LINES, TAIL_SHOWN = 40, 3
"""The last lines of a failed point's output that the page shows, and that the terminal shows."""
SHOWN, SHOWN_IN_TERMINAL = 500, 100
"""The points that the page shows, and that the terminal shows."""


def _content(found: Sequence[Record], run: Run) -> Mapping[str, Any]:
    return {"SHOWN": SHOWN, "TAIL_LINES": TAIL_LINES, "command": lambda record: reproduce(record, run.info.settings)}


def _print(records: Sequence[Record], console: Console) -> None:
    for record in records[:SHOWN_IN_TERMINAL]:
        name = f"{record.point.benchmark} {record.point.device} {point_text(record)}".strip()
        reason = record.reason or "no reason was recorded"
        console.print(Text.assemble((record.status, STYLES[record.status]), f" {name}: {reason}"), soft_wrap=True)
        if record.status == "failed":
            for line in record.output_tail[-TAIL_SHOWN:]:
                console.print(Text(f"    {line}", style="dim"), no_wrap=True, overflow="ellipsis")
    if len(records) > SHOWN_IN_TERMINAL:
        more = f"and {len(records) - SHOWN_IN_TERMINAL:,} more, in records.csv"
        console.print(Text(more, style="dim"))


section = Section(
    find=lambda run: [record for status in STYLES for record in run.of_status(status)],
    page=InPage(70, "unmeasured", "Failed and skipped", _content),
    terminal=InTerminal(40, _print),
)
