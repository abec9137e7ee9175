"""Section of the relevant differences between the first run and the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from accelbench.export.terminal import differences_table
from accelbench.report.joined import Joined, RunDifference
from accelbench.report.section import InPage, Section

ALIKE = "The runs have no relevant differences in settings or machines."


def _content(joined: Joined, _: Joined) -> Mapping[str, Any]:
    return {"first": joined.labels[0], "differences": joined.differences, "runs": _runs(joined), "ALIKE": ALIKE}


def _runs(joined: Joined) -> Mapping[RunDifference, str]:
    """Return the labels of the runs with each difference, as text."""
    others = joined.labels[1:]
    return {
        one: "all others" if one.labels == others and len(others) > 1 else ", ".join(one.labels)
        for one in joined.differences
    }


def _print(joined: Joined, console: Console) -> None:
    console.print()
    if not joined.differences:
        console.print(Text(ALIKE))
        return
    runs = _runs(joined)
    rows = [(one.fact, one.first, f"{one.other} ({runs[one]})") for one in joined.differences]
    console.print(differences_table(joined.labels[0], "others", rows))


section = Section(
    find_joined=lambda joined: None if joined.single else joined,
    page=InPage("what_differs.html", "differences", "Differences", _content),
    terminal=_print,
)
