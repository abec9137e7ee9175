"""The flags: figures that something disturbed, or that rest on less than they should."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from accelbench.report.rows import Group, Row
from accelbench.report.section import InPage, InTerminal, Run, Section

MEANINGS_SHOWN = 2
"""The meanings of one flag that the terminal shows; the page has them all."""
FLAGGED_SHOWN, COURSES_DRAWN = 500, 24
"""The flagged points that the page shows, and the time courses that it draws: it stays small."""
FEW = 3
"""The most flagged points whose explanations are unfolded."""


def _print(flagged: Sequence[tuple[Group, Row]], console: Console) -> None:
    """Print what each flag means, with the points it concerns; the page has what is too long for the terminal."""
    meanings: dict[str, dict[str, list[str]]] = {}
    for group, row in flagged:
        for flag in row.flags:
            meanings.setdefault(flag.word, {}).setdefault(flag.meaning, []).append(f"{group.benchmark} {row.point}")
    for word, by_meaning in meanings.items():
        shown = list(by_meaning.items())[:MEANINGS_SHOWN]
        for meaning, points in shown:
            where = points[0].strip() if len(points) == 1 else f"{len(points)} points"
            console.print(Text.assemble((word, "yellow"), (f": {meaning} ({where})", "dim")))
        more = sum(map(len, by_meaning.values())) - sum(len(points) for _, points in shown)
        if more:
            rest = "1 more point" if more == 1 else f"{more} more points"
            console.print(Text.assemble((word, "yellow"), (f": {rest}, each explained in the report", "dim")))


def _content(flagged: Sequence[tuple[Group, Row]], run: Run) -> Mapping[str, Any]:
    from accelbench.report.course_plot import time_course

    shown = [row for _, row in flagged[:FLAGGED_SHOWN]]
    drawn = [n for n, row in enumerate(shown) if row.course.kind != "steady"][:COURSES_DRAWN]
    return {
        "FEW": FEW,
        "FLAGGED_SHOWN": FLAGGED_SHOWN,
        "courses": {n: time_course(shown[n], f"course-{n + 1}") for n in drawn},
    }


section = Section(
    find=lambda run: [(group, row) for group in run.groups for row in group.rows if row.flags],
    page=InPage(80, "flags", "Flags", _content),
    terminal=InTerminal(20, _print),
)
