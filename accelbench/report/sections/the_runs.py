"""Section of the runs in a joint report: id, machine, suite and outcome."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from accelbench.export.terminal import new_table
from accelbench.report.joined import Joined
from accelbench.report.section import InPage, Section
from accelbench.report.stored_run import LIGHT_STYLES, Run

LABEL = 24
"""Maximum width of a run's label in characters."""

LabelledRun = tuple[str, Run]
"""Label and run."""


def _find(joined: Joined) -> Sequence[LabelledRun]:
    return [] if joined.single else joined.labelled


def _print(labelled: Sequence[LabelledRun], console: Console) -> None:
    shown = new_table("run", "id, machine and suite", "outcome")
    shown.columns[0].min_width = min(LABEL, max(len(label) for label, _ in labelled))
    for label, run in labelled:
        what = f"{run.info.run_id}\n{run.machine}\n{run.suite}, seed {run.info.settings.seed}, {run.created}"
        outcome = Text.assemble(("● ", LIGHT_STYLES[run.light]), run.outcome)
        shown.add_row(Text(label, style="bold"), Text(what), outcome)
        shown.add_section()
    console.print(shown)


section = Section(find_joined=_find, page=InPage("the_runs.html", "runs", "Runs"), terminal=_print)
