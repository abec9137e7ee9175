"""Comparison of the results with published and own references for the same device."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from accelbench.output.format import counted, read_result
from accelbench.references.comparison import ReferenceComparison
from accelbench.references.contribute import is_reference
from accelbench.report.section import InPage, Run, Section

SHOWN = 8
"""Maximum number of comparisons on the terminal; the page lists all."""
BARS = 6
"""Maximum number of bars of a comparison that are not collapsed."""
LINE = '<p class="quiet">{{ found }}</p>\n'


def _print(found: Sequence[ReferenceComparison], console: Console) -> None:
    console.print(Text("Comparison with references", style="bold"))
    lines = [_line(each) for each in found[:SHOWN]]
    if more := len(found) - SHOWN:
        lines += [Text(f"{counted(more, 'more comparison')} in the report", style="dim")] * (more > 0)
    for line in lines:
        console.print(Padding(line, (0, 0, 0, 2)))
    console.print()


def _line(comparison: ReferenceComparison) -> Text:
    point, reading = comparison.record.point, read_result(comparison.record)
    metric = f"{point.benchmark} {point.details}".strip() + f", {reading.quantity if reading else ''}: "
    note = f"; {comparison.note}" if comparison.note else ""
    return Text.assemble(metric, (comparison.sentence, "" if comparison.normal else "yellow"), note)


def _advice(run: Run) -> str | None:
    """Return the command that stores this run's results as references, if none is known and there are results."""
    quiet = [row.record for row in run.rows if not row.disturbed]
    if run.reference_comparisons or not any(is_reference(run.info, record) for record in quiet):
        return None
    return f"No reference for {run.machine}: 'accelbench contribute {run.info.run_id}' stores these results as one."


section = Section(
    find=lambda run: run.reference_comparisons,
    page=InPage("comparison_with_references.html", "normal", "References", lambda found, run: {"BARS": BARS}),
    terminal=_print,
)
advice = Section(
    find=_advice,
    page=InPage(LINE),
    terminal=lambda line, console: console.print(Text(line, style="dim")),
)
"""One line instead of the section if no reference is known."""
