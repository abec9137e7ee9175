"""Summary of a run: speed, bottleneck, confidence, and the numbers of measured, failed and skipped points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from accelbench.report.answer import RunSummary, answer
from accelbench.report.joined import Joined
from accelbench.report.section import InPage, Run, Section
from accelbench.report.sections.measured_ceilings import draw_rooflines
from accelbench.report.stored_run import LIGHT_STYLES, RECORDS_HELD
from accelbench.report.tiles import step_bars, tiles

WIDTH = 100
WHERE = f"Only the first {RECORDS_HELD:,} points of each status are shown"
NOTICE = """\
<p class="notice" role="note">{{ where }}; the other {{ "{:,}".format(found) }} are in records.csv and \
records.parquet.</p>
"""


def _print(found: RunSummary, console: Console) -> None:
    console.print()
    if found.busy:
        busy = f"This machine was busy: {found.busy}. Results marked ≥ are lower bounds, ~ are noisy."
        console.print(Text(busy, style="yellow"), width=min(WIDTH, console.width))
    for heading, text in found.lines:
        console.print(Text(heading, style="bold"))
        style = LIGHT_STYLES[found.light] if text is found.confidence else ""
        console.print(Padding(Text(text, style=style), (0, 0, 0, 2)), width=min(WIDTH, console.width))
    console.print()


def _print_counts(run: Run, console: Console) -> None:
    """Print the numbers of measured, noisy, failed and skipped points."""
    state = "red" if run.counts.failed else "yellow" if run.counts.disturbed else "green"
    console.print(Text(run.counts_text, style=f"bold {state}"))


def _print_left_out(found: int, console: Console) -> None:
    console.print(Text(f"{WHERE}; the other {found:,} are in records.csv", style="yellow"))


def _content(found: RunSummary, run: Run) -> Mapping[str, Any]:
    rooflines = list(draw_rooflines(Joined((run,))))
    return {"tiles": tiles(found, run), "steps": step_bars(run), "rooflines": rooflines}


section = Section(find=answer, page=InPage("the_answer.html", content=_content), terminal=_print)
counts = Section(find=lambda run: run, terminal=_print_counts)
left_out = Section(
    find=lambda run: run.left_out.counts.points,
    page=InPage(NOTICE, content=lambda found, run: {"where": WHERE}),
    terminal=_print_left_out,
)
