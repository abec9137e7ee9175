"""The runs that are shown together: what each is, of which machine and device, and how it went."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from accelbench.export.terminal import new_table
from accelbench.report.joined import Joined
from accelbench.report.section import InPage, Section
from accelbench.report.stored_run import LIGHT_STYLES, Run

LABEL = 24
"""The characters of a run's label that stand in one line."""

LabelledRun = tuple[str, Run]
"""A run with what it is called by."""


def _find(joined: Joined) -> Sequence[LabelledRun]:
    return [] if joined.alone else joined.labelled


def _print(labelled: Sequence[LabelledRun], console: Console) -> None:
    shown = new_table("run", "what it is", "outcome")
    shown.columns[0].min_width = min(LABEL, max(len(label) for label, _ in labelled))
    for label, run in labelled:
        what = f"{run.info.run_id}\n{run.machine}\n{run.suite}, seed {run.info.settings.seed}, {run.created}"
        outcome = Text.assemble(("● ", LIGHT_STYLES[run.light]), run.outcome)
        shown.add_row(Text(label, style="bold"), Text(what), outcome)
        shown.add_section()
    console.print(shown)


section = Section(find_joined=_find, page=InPage("the_runs.html", "runs", "Runs"), terminal=_print)
