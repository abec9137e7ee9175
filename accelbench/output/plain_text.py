"""Texts of others are made plain here: what acts on its reader, or breaks a line, is taken out of them.

It is done where such texts come in, when a run is read (`plain_data`), and where any text goes out
(`accelbench.output.console`, the page's template engine): what shows a figure in between need not think of it.
"""

from __future__ import annotations

import re
from typing import Any

# Terminal escape sequences, every control character but tab and newline, and marks that turn the direction of reading.
_ACTING = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
    r"|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
_BREAKS = re.compile(r"[\t\n\u2028\u2029]+")
# What any of these looks like in JSON, where characters below a space are always escaped and others may be.
_IN_JSON = re.compile(r"\\[bfnrtu]|[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """Return the text without escape sequences, control characters and marks of direction, which act on its reader."""
    return _ACTING.sub("", text)


def one_line(text: str) -> str:
    """Return the plain text with its lines joined, and single spaces between its words."""
    return " ".join(plain(text).split())


def may_act(json_text: str) -> bool:
    """Return whether a text in this JSON may be other than plain; False is certain."""
    return bool(_IN_JSON.search(json_text))


def plain_data(data: Any) -> Any:
    """Return what was read from JSON with every text in it plain and in one line, the names of its fields included."""
    if isinstance(data, str):
        return _BREAKS.sub(" ", plain(data))
    if isinstance(data, dict):
        return {plain_data(name): plain_data(value) for name, value in data.items()}
    return [plain_data(value) for value in data] if isinstance(data, list) else data
