"""Lines of a user's own code in which a thread spends its time; frames of libraries are folded into their caller."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from accelbench.profiling.host.rules import INPUT, classify
from accelbench.profiling.host.stacks import Frame, Stack, Stacks
from accelbench.profiling.records.script import CodeLine

MOST_LINES = 5
FEWEST_SAMPLES = 5
"""Minimum number of samples for shares of lines."""


def code_lines(
    stacks: Stacks, thread: int, is_own: Callable[[str], Path | None], folder: Path
) -> tuple[list[CodeLine], list[CodeLine]]:
    """Return the lines in which a thread makes batches or waits for them, and those of its other time.

    `is_own` returns the path of a file of the user's own code. Files are named relative to `folder`.
    """
    waiting, other = Counter[tuple[Path, int, str]](), Counter[tuple[Path, int, str]]()
    totals = Counter[bool]()
    for stack, count in stacks.items():
        if stack.thread != thread:
            continue
        is_input = classify(stack) == "input"
        totals[is_input] += count
        if found := own_line(stack, is_own):
            (waiting if is_input else other)[found] += count
    return _shares(waiting, totals[True], folder), _shares(other, totals[False], folder)


def own_line(stack: Stack, is_own: Callable[[str], Path | None]) -> tuple[Path, int, str] | None:
    """Return the innermost line of the user's own code: file, line and function; None without one."""
    for frame in reversed(stack.frames):
        if not INPUT.search(str(frame)) and (path := _own_file(frame, is_own)):
            return path, frame.line or 0, frame.name
    return None


def _own_file(frame: Frame, is_own: Callable[[str], Path | None]) -> Path | None:
    return is_own(frame.file) if frame.file.endswith(".py") else None


def _shares(lines: Counter[tuple[Path, int, str]], total: int, folder: Path) -> list[CodeLine]:
    if total < FEWEST_SAMPLES:
        return []
    return [
        CodeLine(file=_name(path, folder), line=line, function=function, share=count / total)
        for (path, line, function), count in lines.most_common(MOST_LINES)
    ]


def _name(path: Path, folder: Path) -> str:
    name = os.path.relpath(path, folder)
    return path.name if name.startswith("..") else name
