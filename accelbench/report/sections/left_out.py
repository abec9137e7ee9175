"""The notice of a very large run that page and terminal are of its first points."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from accelbench.report.section import InPage, InTerminal, Section
from accelbench.report.stored_run import RECORDS_HELD

WHERE = f"Only the first {RECORDS_HELD:,} points of each outcome are looked at here"
NOTICE = """\
<p class="notice" role="note">{{ where }}; records.csv and records.parquet have the other \
{{ "{:,}".format(found) }}, too.</p>
"""


def _print(found: int, console: Console) -> None:
    console.print(Text(f"{WHERE}; records.csv has the other {found:,}, too", style="yellow"))


section = Section(
    find=lambda run: run.left_out.counts.points,
    page=InPage(4, content=lambda found, run: {"where": WHERE}, template=NOTICE),
    terminal=InTerminal(45, _print),
)
