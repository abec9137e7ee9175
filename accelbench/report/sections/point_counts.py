"""The last line of the terminal's table: how many points were measured, failed or were skipped."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from accelbench.report.rows import count_text
from accelbench.report.section import InTerminal, Run, Section


def _print(run: Run, console: Console) -> None:
    console.print(Text(count_text(run.info, run.records), style="bold"))


section = Section(find=lambda run: run, terminal=InTerminal(50, _print))
