"""The one form in which every command hands over what it found, and how that is written in each format."""

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
"""What a CI server makes of a row: `skipped` is what was not decided or not measured."""

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class DocumentRow:
    """One thing that was found: a point, a comparison, a claim or a check."""

    name: str
    values: Mapping[str, Any]
    """The columns: numbers, words, lists of words, or None for what is not known."""
    outcome: RowOutcome = "passed"
    reason: str = ""
    """Why it failed or was skipped, or what is to be known of it."""
    seconds: float | None = None
    """How long it took; None where that is no question."""


@dataclass(frozen=True)
class Column:
    """A column of the terminal's table."""

    title: str
    lines: tuple[str, ...]
    """The lines of each cell, as formats of the row's values: `{name}`, or `× {speed:.3f}`; a list takes several."""
    below: tuple[str, ...] = ()
    """Dimmed lines below them, left out where a value is missing."""
    right: bool = False
    """Whether cells are right-aligned."""
    whole: bool = False
    """Whether cells are never wrapped, however narrow the terminal."""


@dataclass(frozen=True)
class ResultDocument:
    """What a command found: facts on the whole, and a row for each thing."""

    command: str
    facts: Mapping[str, Any]
    rows: Sequence[DocumentRow] = field(default_factory=list)
    told: Sequence[str] = ()
    """The columns that a person wants to see, which are those of Markdown; none for all."""
    columns: Sequence[Column] = ()
    """The columns of the terminal's table (`accelbench.export.terminal`)."""

    def write(self, form: DocumentFormat) -> str:
        """Return the document in a format; ValueError for `table`, which `accelbench.export.terminal` prints."""
        if form == "json":
            return self._json()
        if form == "markdown":
            return self._markdown()
        if form == "junit":
            return self._junit()
        raise ValueError(f"{form} is not written by a document")

    def _json(self) -> str:
        rows = [{"name": row.name, "outcome": row.outcome, "reason": row.reason, **row.values} for row in self.rows]
        found = {"command": self.command, **self.facts, "rows": rows}
        return json.dumps(_finite(found), ensure_ascii=False, indent=1, default=str, allow_nan=False)

    def _markdown(self) -> str:
        columns = self.told or list(dict.fromkeys(column for row in self.rows for column in row.values))
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
    """Return a value as a person reads it in a table; nothing for what is not known."""
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
    """Return a text that stays in its cell, and is no mark-up."""
    for sign in "\\|*_`<[":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(plain(text).split())


def _in_xml(text: str) -> str:
    """Return the text without what XML has no place for."""
    return _NOT_IN_XML.sub("", plain(text))


def _finite(value: Any) -> Any:
    """Return the value with None for each number that JSON has no word for."""
    if isinstance(value, Mapping):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    if isinstance(value, float) and value - value != 0:
        return None
    return value
