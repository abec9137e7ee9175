"""The answers that come first: how fast the machine is, what limits it, whether to believe it, whether it is normal.

"Is it normal?" compares the figures with what others measured on the same device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from accelbench.format import read
from accelbench.report.answer import Answer, answer
from accelbench.report.section import InPage, Run, Section
from accelbench.report.standing import Standing, standings
from accelbench.report.stored_run import LIGHT_STYLES, RECORDS_HELD

WIDTH = 100
SHOWN = 8
"""The most figures that the terminal compares with others; the page shows all."""
WHERE = f"Only the first {RECORDS_HELD:,} points of each outcome are looked at here"
NOTICE = """\
<p class="notice" role="note">{{ where }}; records.csv and records.parquet have the other \
{{ "{:,}".format(found) }}, too.</p>
"""


def _print(found: Answer, console: Console) -> None:
    console.print()
    for question, text in found.lines:
        console.print(Text(question, style="bold"))
        style = LIGHT_STYLES[found.light] if text is found.believe else ""
        console.print(Padding(Text(text, style=style), (0, 0, 0, 2)), width=min(WIDTH, console.width))
    console.print()


@dataclass(frozen=True)
class Normal:
    """The figures that stand beside those of others, and what is said where none does."""

    standings: Sequence[Standing]
    nobody: str


def _normal(run: Run) -> Normal | None:
    if not run.rows:
        return None
    kept = "'accelbench contribute RUN' keeps these for later runs to stand beside"
    return Normal(standings(run), f"Nobody's figure of these points is known on {run.machine}; {kept}.")


def _print_normal(found: Normal, console: Console) -> None:
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


def _print_counts(run: Run, console: Console) -> None:
    """Print how many points were measured, were noisy, failed or were skipped."""
    state = "red" if run.counts.failed else "yellow" if run.counts.disturbed else "green"
    console.print(Text(run.counts_text, style=f"bold {state}"))


def _print_left_out(found: int, console: Console) -> None:
    console.print(Text(f"{WHERE}; records.csv has the other {found:,}, too", style="yellow"))


section = Section(find=answer, page=InPage("the_answer.html"), terminal=_print)
normal = Section(
    find=_normal,
    page=InPage("is_it_normal.html", "normal", "Is it normal?", lambda found, run: {"read": read}),
    terminal=_print_normal,
)
counts = Section(find=lambda run: run, terminal=_print_counts)
left_out = Section(
    find=lambda run: run.left_out.counts.points,
    page=InPage(NOTICE, content=lambda found, run: {"where": WHERE}),
    terminal=_print_left_out,
)
