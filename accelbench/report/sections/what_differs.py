"""The differences that matter between runs that are shown together: each other run is held against the first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from accelbench.export.terminal import differences_table
from accelbench.report.joined import Joined, RunDifference
from accelbench.report.section import InPage, Section

ALIKE = "The runs agree in their settings and in every fact of their machines that matters."


def _content(joined: Joined, _: Joined) -> Mapping[str, Any]:
    return {"first": joined.labels[0], "apart": joined.apart, "whose": _whose(joined), "ALIKE": ALIKE}


def _whose(joined: Joined) -> Mapping[RunDifference, str]:
    """Return, in words, the runs that each difference is of."""
    others = joined.labels[1:]
    return {
        apart: "all others" if apart.labels == others and len(others) > 1 else ", ".join(apart.labels)
        for apart in joined.apart
    }


def _print(joined: Joined, console: Console) -> None:
    console.print()
    if not joined.apart:
        console.print(Text(ALIKE))
        return
    whose = _whose(joined)
    apart = [(one.fact, one.first, f"{one.other} ({whose[one]})") for one in joined.apart]
    console.print(differences_table(joined.labels[0], "others", apart))


section = Section(
    find_joined=lambda joined: None if joined.alone else joined,
    page=InPage("what_differs.html", "differences", "Differences", _content),
    terminal=_print,
)
