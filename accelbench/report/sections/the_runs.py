"""The runs that are shown together: what each is, of which machine and device, and how it went."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from accelbench.report.joined import Joined
from accelbench.report.section import InPage, InTerminal, Section
from accelbench.report.stored_run import LIGHT_STYLES, Run

LABEL = 24
"""The characters of a run's label that stand in one line."""

Labelled = tuple[str, Run]
"""A run with what it is called by."""


def _find(joined: Joined) -> Sequence[Labelled]:
    return [] if joined.alone else joined.labelled


def _print(labelled: Sequence[Labelled], console: Console) -> None:
    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    shown.add_column("run", overflow="fold", min_width=min(LABEL, max(len(label) for label, _ in labelled)))
    for column in ("what it is", "outcome"):
        shown.add_column(column, overflow="fold")
    for label, run in labelled:
        what = f"{run.info.run_id}\n{run.machine}\n{run.suite}, seed {run.info.settings.seed}, {run.created}"
        outcome = Text.assemble(("● ", LIGHT_STYLES[run.light]), run.outcome)
        shown.add_row(Text(label, style="bold"), Text(what), outcome)
        shown.add_section()
    console.print(shown)


section = Section(find_joined=_find, page=InPage(1, "runs", "Runs"), terminal=InTerminal(1, _print))
