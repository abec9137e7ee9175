"""The section that tells how to read the figures of the page, and how to repeat the run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from accelbench.report.section import InPage, Run, Section


def _content(found: Run, run: Run) -> Mapping[str, Any]:
    return {"whole_run": " ".join(map(_quoted, run.info.command))}


def _quoted(word: str) -> str:
    """Return the word for a POSIX shell, which is left to find the home folder."""
    home, found, rest = word.partition("~/")
    return f"~/{shlex.quote(rest)}" if found and not home and rest else shlex.quote(word)


section = Section(find=lambda run: run, page=InPage(120, "method", "Method", _content))
