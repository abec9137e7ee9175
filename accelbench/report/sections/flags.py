"""Section of the flags: noisy results and others with caveats, grouped by cause, and the load over the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.text import Text

from accelbench.output.console import HangingText, PlainConsole
from accelbench.output.format import counted
from accelbench.report.causes import NOISY, FlagCause
from accelbench.report.disturbance_plot import draw_timeline
from accelbench.report.disturbances import timeline
from accelbench.report.samples_plot import time_course
from accelbench.report.section import InPage, Run, Section

CAUSES_SHOWN = 2
"""Maximum number of causes per flag on the terminal; the page has all."""
FLAGGED_SHOWN, COURSES_DRAWN = 500, 24
"""Maximum numbers of points per cause and of time courses on the page."""
FEW = 3
"""Maximum number of causes that are not collapsed."""


def _print(found: Sequence[FlagCause], console: PlainConsole) -> None:
    """Print the causes of each flag; causes of noise, which are in the summary, only with all details."""
    printed = [cause for cause in found if console.verbose or cause.word != NOISY]
    for word, of_word in groupby(printed, key=lambda cause: cause.word):
        shown = list(of_word)
        for cause in shown[:CAUSES_SHOWN]:
            point, count = cause.rows[0].record.point, len(cause.rows)
            where = f"{count} points" if count > 1 else f"{point.benchmark} {point.details}".strip()
            line = Text.assemble((word, "yellow"), (f": {cause.sentence} ({where}, {cause.when})", "dim"))
            console.print(HangingText(line))
        if more := sum(len(cause.rows) for cause in shown[CAUSES_SHOWN:]):
            rest = f"{counted(more, 'more point')}, see the report"
            console.print(Text.assemble((word, "yellow"), (f": {rest}", "dim")))


def _content(found: Sequence[FlagCause], run: Run) -> Mapping[str, Any]:
    courses = {str(row.record.point): row for cause in found for row in cause.rows if row.course.kind == cause.word}
    drawn = list(courses.items())[:COURSES_DRAWN]
    over_time = timeline(run)
    return {
        "timeline": draw_timeline(over_time, "disturbances") if over_time else None,
        "FEW": FEW,
        "FLAGGED_SHOWN": FLAGGED_SHOWN,
        "courses": {point: time_course(row, f"course-{n}") for n, (point, row) in enumerate(drawn, start=1)},
    }


section = Section(
    find=lambda run: run.causes,
    page=InPage("flags.html", "flags", "Flags", _content),
    terminal=_print,
)
