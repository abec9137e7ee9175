"""The line under the figures that says over how many processes each is the median, and which ones rest on one only."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from accelbench.report.section import InPage, InTerminal, Run, Section

ONE_ONLY = "an interval does not hold what changes from process to process, --rounds 5 measures that too"


def _find(run: Run) -> str:
    """Return the line; empty where nothing was timed."""
    counted = [(row.record.point.benchmark, len(row.record.rounds) or 1) for group in run.groups for row in group.rows]
    alone = list(dict.fromkeys(name for name, count in counted if count == 1))
    several = sorted({count for _, count in counted if count > 1})
    if not several:
        return f"within one process only: {ONE_ONLY}" if alone else ""
    counts = f"{several[0]}" if len(several) == 1 else f"{several[0]} to {several[-1]}"
    line = f"each figure is the median over {counts} rounds, each a fresh process, and its interval is between them"
    return f"{line}; within one process only: {', '.join(alone)}" if alone else line


def _print(line: str, console: Console) -> None:
    console.print(Text(line, style="dim"))


section = Section(
    find=_find,
    page=InPage(65, template='<p class="quiet">{{ found[0]|upper }}{{ found[1:] }}.</p>\n'),
    terminal=InTerminal(15, _print),
)
