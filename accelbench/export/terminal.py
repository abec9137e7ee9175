"""Terminal tables: their common style, and the table of a document.

A table that does not fit the terminal is printed as blocks: the first cell of a row, then its other cells, indented.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from string import Formatter
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.table import Column as TableColumn
from rich.table import Table
from rich.text import Text

from accelbench.export.document import Column, DocumentRow, ResultDocument
from accelbench.output.console import HangingText
from accelbench.output.format import UNKNOWN

WIDTH = 140
"""Maximum width of a table in characters; longer lines are hard to read."""
NARROWEST = 12
"""Minimum width of the name column in characters."""
ROOM_FOR_NAMES = 24
"""Width of the first column in characters below which the rows are printed as blocks."""
BETWEEN = 2
"""Characters between two columns."""
_NOTE = re.compile(r" \(.*\)")
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


class ResultTable(Table):
    """Table that prints its rows as blocks where the terminal is too narrow for its columns."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[Any]:
        """Yield the table, or its rows as blocks."""
        if self._least_width(console, options) <= options.max_width:
            yield from super().__rich_console__(console, options)
        else:
            yield from self._blocks()

    def _least_width(self, console: Console, options: ConsoleOptions) -> int:
        """Return the width in characters below which words are split or cells cut."""
        widths = [self._least_of(column, number, console, options) for number, column in enumerate(self.columns)]
        return sum(widths) + BETWEEN * max(0, len(widths) - 1)

    def _least_of(self, column: TableColumn, number: int, console: Console, options: ConsoleOptions) -> int:
        wide = options.update(width=10 * WIDTH, max_width=10 * WIDTH)
        measured = [Measurement.get(console, wide, cell) for cell in (column.header, *column.cells)]
        whole = max((each.maximum for each in measured), default=0)
        if column.no_wrap:
            return whole
        words = max((each.minimum for each in measured), default=0)
        return max(words, min(whole, ROOM_FOR_NAMES)) if number == 0 else words

    def _blocks(self) -> Iterable[RenderableType]:
        """Yield each row as its first cell, and a line of the other cells with the titles of their columns."""
        if self.title:
            yield HangingText(_line(self.title))
        cells = [list(column.cells) for column in self.columns]
        titles = [_NOTE.sub("", _line(column.header).plain) for column in self.columns]
        for number, row in enumerate(self.rows):
            first = cells[0][number]
            yield HangingText(first) if isinstance(first, Text) else first
            values = [_line(column[number]) for column in cells[1:]]
            known = zip(titles[1:], values, strict=True)
            shown = [Text(" ").join([Text(title, "dim"), value]) for title, value in known if _is_known(value)]
            if shown:
                yield HangingText(Text(" · ", "dim").join(shown), 4, 4)
            if row.end_section:
                yield Text()


def _line(cell: RenderableType) -> Text:
    """Return a cell, or a title, as one line."""
    text = cell if isinstance(cell, Text) else Text(cell) if isinstance(cell, str) else None
    assert text is not None, "only the first cell of a row may be another renderable"
    return Text(", ").join(line for line in text.split("\n") if line.plain.strip())


def _is_known(value: Text) -> bool:
    return value.plain.strip() not in ("", UNKNOWN)


def new_table(
    *columns: str, right: Collection[str] = (), whole: Collection[str] = (), title: str | None = None
) -> ResultTable:
    """Return an empty table with wrapped cells; columns in `right` are right-aligned, columns in `whole` unwrapped."""
    table = ResultTable(
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
