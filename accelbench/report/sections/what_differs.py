"""The differences that matter between runs that are shown together: each other run is held against the first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from accelbench.report.joined import Apart, Joined
from accelbench.report.section import InPage, InTerminal, Section

ALIKE = "The runs agree in their settings and in every fact of their machines that matters."


def _content(joined: Joined, _: Joined) -> Mapping[str, Any]:
    return {"first": joined.labels[0], "apart": joined.apart, "whose": _whose(joined), "ALIKE": ALIKE}


def _whose(joined: Joined) -> Mapping[Apart, str]:
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
    table = Table(title="What differs and matters", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("fact", joined.labels[0], "others"):
        table.add_column(name, overflow="fold")
    for one in joined.apart:
        table.add_row(one.fact, Text(one.first), Text(f"{one.other} ({whose[one]})"), style="yellow")
    console.print(table)


section = Section(
    find_joined=lambda joined: None if joined.alone else joined,
    page=InPage(2, "differences", "Differences", _content),
    terminal=InTerminal(2, _print),
)
