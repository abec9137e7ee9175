"""A check's outcome, and the table of all outcomes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.table import Table

Status = Literal["ok", "warn", "missing"]

COLOURS: dict[Status, str] = {"ok": "green", "warn": "yellow", "missing": "red"}


@dataclass(frozen=True)
class Check:
    """One thing looked at: how it is, what to do about it, and what it costs to leave it (empty where it is well)."""

    name: str
    status: Status
    found: str
    advice: str = ""
    cost: str = ""


def check_table(checks: Iterable[Check]) -> Table:
    """Return a table with a row for each check; the cost of leaving a thing as it is stands under what to do."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("", "looked at", "found", "what to do"):
        table.add_column(column, overflow="fold")
    for check in checks:
        # Text, not markup: 'accelbench[gpu]' is no style.
        what = Text(check.advice)
        if check.cost:
            what.append(f"\nas it is: {check.cost}", style="dim")
        table.add_row(Text(check.status, style=COLOURS[check.status]), Text(check.name), Text(check.found), what)
    return table
