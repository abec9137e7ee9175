"""Result document of a command, and its output as JSON, Markdown and JUnit XML."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from accelbench.output.plain_text import plain

DocumentFormat = Literal["table", "json", "markdown", "junit"]
FORMATS: tuple[DocumentFormat, ...] = get_args(DocumentFormat)
RowOutcome = Literal["passed", "failed", "skipped"]
"""Outcome of a row as a CI test case; `skipped` means inconclusive or not measured."""

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class DocumentRow:
    """Row of a document: a point, a comparison, a claim or a check."""

    name: str
    values: Mapping[str, Any]
    """Values by column: numbers, text, lists of text, or None if unknown."""
    outcome: RowOutcome = "passed"
    reason: str = ""
    """Reason for a failed or skipped row, or a note."""
    seconds: float | None = None
    """Duration in seconds; None if it does not apply."""


@dataclass(frozen=True)
class Column:
    """Column of the terminal table."""

    title: str
    lines: tuple[str, ...]
    """Format strings of a cell's lines, such as `{name}` or `× {speed:.3f}`; a list has one line for each item."""
    below: tuple[str, ...] = ()
    """Format strings of dimmed lines below, left out if a value is missing."""
    right: bool = False
    """Whether cells are right-aligned."""
    whole: bool = False
    """Whether cells are never wrapped."""


@dataclass(frozen=True)
class ResultDocument:
    """Result of a command: general facts and rows."""

    command: str
    facts: Mapping[str, Any]
    rows: Sequence[DocumentRow] = field(default_factory=list)
    markdown_columns: Sequence[str] = ()
    """Columns of the Markdown table; empty for all."""
    columns: Sequence[Column] = ()
    """Columns of the terminal table (`accelbench.export.terminal`)."""

    def write(self, form: DocumentFormat) -> str:
        """Return the document as text in a format; raise ValueError for `table` (see `accelbench.export.terminal`)."""
        if form == "json":
            return self._json()
        if form == "markdown":
            return self._markdown()
        if form == "junit":
            return self._junit()
        raise ValueError(f"format {form} is not text: use accelbench.export.terminal")

    def _json(self) -> str:
        rows = [{"name": row.name, "outcome": row.outcome, "reason": row.reason, **row.values} for row in self.rows]
        found = {"command": self.command, **self.facts, "rows": rows}
        return json.dumps(_finite(found), ensure_ascii=False, indent=1, default=str, allow_nan=False)

    def _markdown(self) -> str:
        columns = self.markdown_columns or list(dict.fromkeys(column for row in self.rows for column in row.values))
        shown = [column for column in columns if any(_words(row.values.get(column)) for row in self.rows)]
        facts = [
            f"**{_cell(name.replace('_', ' '))}**: {_cell(_words(fact))}  "
            for name, fact in self.facts.items()
            if _words(fact)
        ]
        lines = [["", *shown, "outcome", "reason"]]
        for row in self.rows:
            lines.append([row.name, *(_words(row.values.get(column)) for column in shown), row.outcome, row.reason])
        table = [f"| {' | '.join(map(_cell, line))} |" for line in lines]
        rule = f"|{'---|' * len(lines[0])}"
        return "\n".join([*facts, "", table[0], rule, *table[1:]])

    def _junit(self) -> str:
        from xml.etree import ElementTree

        outcomes = Counter(row.outcome for row in self.rows)
        counts = {"tests": len(self.rows), "failures": outcomes["failed"], "skipped": outcomes["skipped"]}
        name = f"accelbench {self.command}"
        suite = ElementTree.Element("testsuite", {"name": name, **{what: str(n) for what, n in counts.items()}})
        properties = ElementTree.SubElement(suite, "properties")
        for fact, value in self.facts.items():
            ElementTree.SubElement(properties, "property", {"name": _in_xml(fact), "value": _in_xml(_words(value))})
        for row in self.rows:
            took = {} if row.seconds is None else {"time": f"{row.seconds:.3f}"}
            case = ElementTree.SubElement(suite, "testcase", {"classname": name, "name": _in_xml(row.name), **took})
            if row.outcome != "passed":
                element = "failure" if row.outcome == "failed" else "skipped"
                ElementTree.SubElement(case, element, {"message": _in_xml(row.reason)})
            values = "\n".join(f"{column}: {_words(value)}" for column, value in row.values.items() if _words(value))
            ElementTree.SubElement(case, "system-out").text = _in_xml(values)
        root = ElementTree.Element("testsuites")
        root.append(suite)
        ElementTree.indent(root)
        return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def _words(value: Any) -> str:
    """Return a value as text for a table; empty if unknown."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return "; ".join(map(_words, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_words(inner)}" for name, inner in value.items())
    return str(value)


def _cell(text: str) -> str:
    """Return the text on one line, with Markdown characters escaped."""
    for sign in "\\|*_`<[":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(plain(text).split())


def _in_xml(text: str) -> str:
    """Return the text without characters that XML does not allow."""
    return _NOT_IN_XML.sub("", plain(text))


def _finite(value: Any) -> Any:
    """Return the value with None in place of NaN and infinities, which JSON lacks."""
    if isinstance(value, Mapping):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    if isinstance(value, float) and value - value != 0:
        return None
    return value
