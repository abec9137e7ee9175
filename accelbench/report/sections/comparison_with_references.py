"""Comparison of the results with published and own references for the same device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from accelbench.output.format import read, read_result
from accelbench.references.comparison import ReferenceComparison
from accelbench.report.section import InPage, Run, Section

SHOWN = 8
"""Maximum number of comparisons on the terminal; the page lists all."""


@dataclass(frozen=True)
class ReferenceComparisons:
    """Comparisons of a run, and the text for a run without any."""

    comparisons: Sequence[ReferenceComparison]
    without: str


def _compare(run: Run) -> ReferenceComparisons | None:
    if not run.rows:
        return None
    advice = "'accelbench contribute RUN' stores these results as references for later runs"
    return ReferenceComparisons(
        run.reference_comparisons, f"No reference for these points is known on {run.machine}; {advice}."
    )


def _print(found: ReferenceComparisons, console: Console) -> None:
    console.print(Text("Comparison with references", style="bold"))
    lines = [_line(each) for each in found.comparisons[:SHOWN]] or [Text(found.without, style="dim")]
    if len(found.comparisons) > SHOWN:
        lines.append(Text(f"{len(found.comparisons) - SHOWN} more in the report", style="dim"))
    for line in lines:
        console.print(Padding(line, (0, 0, 0, 2)))
    console.print()


def _line(comparison: ReferenceComparison) -> Text:
    point, reading = comparison.record.point, read_result(comparison.record)
    metric = f"{point.benchmark} {point.details}".strip() + f", {reading.quantity if reading else ''}: "
    note = f"; {comparison.note}" if comparison.note else ""
    return Text.assemble(metric, (comparison.sentence, "" if comparison.normal else "yellow"), note)


section = Section(
    find=_compare,
    page=InPage(
        "comparison_with_references.html",
        "normal",
        "References",
        lambda found, run: {"read": read, "read_result": read_result},
    ),
    terminal=_print,
)
