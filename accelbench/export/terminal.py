"""Terminal tables: their common style, and the table of a document."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from string import Formatter
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from accelbench.export.document import Column, DocumentRow, ResultDocument
from accelbench.output.format import UNKNOWN

WIDTH = 100
"""Maximum width of a table in characters; longer lines are hard to read."""
NARROWEST = 12
"""Minimum width of the name column in characters."""
STYLES = {
    "slower": "bold red",
    "faster": "green",
    "inconclusive": "yellow",
    "not measured": "bold red",
    "ok": "green",
    "warn": "yellow",
    "missing": "red",
}
"""Styles of verdicts and states."""


def new_table(
    *columns: str, right: Collection[str] = (), whole: Collection[str] = (), title: str | None = None
) -> Table:
    """Return an empty table with wrapped cells; columns in `right` are right-aligned, columns in `whole` unwrapped."""
    table = Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        header_style="bold",
        padding=(0, 1, 0, 0),
    )
    for column in columns:
        table.add_column(
            column, justify="right" if column in right else "left", no_wrap=column in whole, overflow="fold"
        )
    return table


def numbers_table(*columns: str) -> Table:
    """Return an empty table with right-aligned columns."""
    return new_table(*columns, right=columns)


def table_of(document: ResultDocument, title: str | None = None) -> Table:
    """Return the document's rows as a table; rows without values are left out."""
    columns = document.columns
    table = new_table(
        *(column.title for column in columns),
        right=[column.title for column in columns if column.right],
        whole=[column.title for column in columns if column.whole],
        title=title,
    )
    for column, shown in zip(columns, table.columns, strict=True):
        shown.min_width = NARROWEST if "{name}" in column.lines else None
    for row in document.rows:
        if row.values:
            table.add_row(*(_cell(row, column) for column in columns))
    return table


def _cell(row: DocumentRow, column: Column) -> Text:
    values = {**row.values, "name": row.name}
    shown = [
        Text(text, style=STYLES.get(text, ""))
        for line in column.lines
        for text in _texts(line, values, missing=[UNKNOWN])
    ]
    below = [Text(text, style="dim") for line in column.below for text in _texts(line, values, missing=[])]
    return Text("\n").join([*shown, *below])


def _texts(line: str, values: Mapping[str, Any], missing: list[str]) -> Iterator[str]:
    """Yield the line with the row's values, one text for each item of a list; yield `missing` if a value is unknown."""
    fields = [field for _, field, _, _ in Formatter().parse(line) if field]
    found = [values.get(field) for field in fields]
    if any(value is None or value == [] for value in found) or (not missing and not all(found)):
        yield from missing
    elif isinstance(found[0], list | tuple):
        yield from (line.format_map({fields[0]: item}) for item in found[0])
    else:
        yield line.format_map(values)


def differences_table(first: str, other: str, rows: Collection[tuple[str, str, str]]) -> Table:
    """Return a table of the relevant differences between two environments."""
    table = new_table("fact", first, other, title="Relevant differences")
    for row in rows:
        table.add_row(*map(Text, row), style="yellow")
    return table
