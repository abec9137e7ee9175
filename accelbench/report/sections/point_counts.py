"""The last line of the terminal's table: how many points were measured, were disturbed, failed or were skipped."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from accelbench.report.section import InTerminal, Run, Section


def _print(run: Run, console: Console) -> None:
    state = "red" if run.counts.failed else "yellow" if run.counts.disturbed else "green"
    console.print(Text(run.counts_text, style=f"bold {state}"))


section = Section(find=lambda run: run, terminal=InTerminal(50, _print))
