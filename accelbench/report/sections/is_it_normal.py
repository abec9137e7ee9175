"""The section "is it normal?": what others measured on the same device, with the source of each figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from accelbench.format import read
from accelbench.report.section import InPage, InTerminal, Run, Section
from accelbench.report.standing import Standing, standings

SHOWN = 8
"""The most figures that the terminal sets beside others; the page shows all."""


@dataclass(frozen=True)
class Normal:
    """The figures that stand beside those of others, and what is said where none does."""

    standings: Sequence[Standing]
    nobody: str


def _find(run: Run) -> Normal | None:
    if not run.rows:
        return None
    kept = "'accelbench contribute RUN' keeps these for later runs to stand beside"
    return Normal(standings(run), f"Nobody's figure of these points is known on {run.machine}; {kept}.")


def _print(found: Normal, console: Console) -> None:
    console.print(Text("Is it normal?", style="bold"))
    lines = [_line(standing) for standing in found.standings[:SHOWN]] or [Text(found.nobody, style="dim")]
    if len(found.standings) > SHOWN:
        lines.append(Text(f"and {len(found.standings) - SHOWN} more, in the report", style="dim"))
    for line in lines:
        console.print(Padding(line, (0, 0, 0, 2)))
    console.print()


def _line(standing: Standing) -> Text:
    point = standing.row.record.point
    figure = f"{point.benchmark} {standing.row.point}".strip() + f", {standing.row.reading.figure}: "
    return Text.assemble(figure, (standing.sentence, "" if standing.normal else "yellow"))


section = Section(
    find=_find,
    page=InPage(12, "normal", "Is it normal?", lambda found, run: {"read": read}),
    terminal=InTerminal(49, _print),
)
