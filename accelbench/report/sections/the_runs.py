"""The runs that are shown together: what each is, of which machine and device, and how it went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from accelbench.history.fingerprint import fingerprint
from accelbench.report.joined import Joined
from accelbench.report.section import InPage, InTerminal, Section
from accelbench.report.stored_run import Run

STYLES = {"good": "green", "disturbed": "yellow", "bad": "bold red"}
LABEL = 24
"""The characters of a run's label that stand in one line."""


@dataclass(frozen=True)
class Told:
    """A run in words."""

    label: str
    run: Run

    @property
    def machine(self) -> str:
        return fingerprint(self.run.info)

    @property
    def outcome(self) -> str:
        """Return how many points were measured, and whether the run is unfinished or shown in part."""
        left_out = self.run.left_out.counts.points
        part = f"{left_out:,} points are in the CSV alone" if left_out else ""
        return "; ".join(filter(None, [self.run.counts_text, self.run.unfinished, part]))


def _find(joined: Joined) -> Sequence[Told]:
    return [] if joined.alone else [Told(label, run) for label, run in joined.labelled]


def _print(runs: Sequence[Told], console: Console) -> None:
    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    shown.add_column("run", overflow="fold", min_width=min(LABEL, max(len(told.label) for told in runs)))
    for column in ("what it is", "outcome"):
        shown.add_column(column, overflow="fold")
    for told in runs:
        run, info = told.run, told.run.info
        what = f"{info.run_id}\n{told.machine}\n{run.suite}, seed {info.settings.seed}, {run.created}"
        outcome = Text.assemble(("● ", STYLES[run.light]), told.outcome)
        shown.add_row(Text(told.label, style="bold"), Text(what), outcome)
        shown.add_section()
    console.print(shown)


section = Section(find_joined=_find, page=InPage(1, "runs", "Runs"), terminal=InTerminal(1, _print))
