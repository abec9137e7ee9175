"""Removal of control characters and line breaks from untrusted text.

Applied on input, when a run is read (`plain_data`), and on output (`accelbench.output.console`, the template engine of
the page), so that the code in between need not do it.
"""

from __future__ import annotations

import re
from typing import Any

# Escape sequences, control characters except tab and newline, bidirectional marks, and characters not allowed in XML.
_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
    r"|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff]"
)
_BREAKS = re.compile(r"[\t\n\u2028\u2029]+")
# The same in JSON text, which escapes all characters below the space and may escape others.
_IN_JSON = re.compile(r"\\[bfnrtu]|[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffe\uffff]")


def plain(text: str) -> str:
    """Return the text without escape sequences, control characters and bidirectional marks."""
    return _CONTROL.sub("", text)


def one_line(text: str) -> str:
    """Return the plain text on one line, with single spaces."""
    return " ".join(plain(text).split())


def may_have_control(json_text: str) -> bool:
    """Return whether this JSON may contain text that is not plain; False is certain."""
    return bool(_IN_JSON.search(json_text))


def plain_data(data: Any) -> Any:
    """Return JSON data with all strings and field names plain and on one line."""
    if isinstance(data, str):
        return _BREAKS.sub(" ", plain(data))
    if isinstance(data, dict):
        return {plain_data(name): plain_data(value) for name, value in data.items()}
    return [plain_data(value) for value in data] if isinstance(data, list) else data
