"""Section of the flags: noisy results and results with other caveats, grouped by cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.text import Text

from accelbench.output.format import counted
from accelbench.report.causes import NOISY, FlagCause
from accelbench.report.samples_plot import time_course
from accelbench.report.section import InPage, Run, Section

CAUSES_SHOWN = 2
"""Maximum number of causes per flag on the terminal; the page has all."""
FLAGGED_SHOWN, COURSES_DRAWN = 500, 24
"""Maximum numbers of points per cause and of time courses on the page."""
FEW = 3
"""Maximum number of causes that are not collapsed."""


def _print(found: Sequence[FlagCause], console: Console) -> None:
    """Print the causes of each flag except `noisy`; causes of noise are in the summary (`accelbench.report.answer`)."""
    for word, of_word in groupby((cause for cause in found if cause.word != NOISY), key=lambda cause: cause.word):
        shown = list(of_word)
        for cause in shown[:CAUSES_SHOWN]:
            point, count = cause.rows[0].record.point, len(cause.rows)
            where = f"{count} points" if count > 1 else f"{point.benchmark} {point.details}".strip()
            console.print(Text.assemble((word, "yellow"), (f": {cause.sentence} ({where})", "dim")))
        if more := sum(len(cause.rows) for cause in shown[CAUSES_SHOWN:]):
            rest = f"{counted(more, 'more point')}, see the report"
            console.print(Text.assemble((word, "yellow"), (f": {rest}", "dim")))


def _content(found: Sequence[FlagCause], run: Run) -> Mapping[str, Any]:
    courses = {str(row.record.point): row for cause in found for row in cause.rows if row.course.kind == cause.word}
    drawn = list(courses.items())[:COURSES_DRAWN]
    return {
        "FEW": FEW,
        "FLAGGED_SHOWN": FLAGGED_SHOWN,
        "courses": {point: time_course(row, f"course-{n}") for n, (point, row) in enumerate(drawn, start=1)},
    }


section = Section(
    find=lambda run: run.causes,
    page=InPage("flags.html", "flags", "Flags", _content),
    terminal=_print,
)
