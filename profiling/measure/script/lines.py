"""Lines of a user's own code in which a thread spends its time; frames of libraries are folded into their caller."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from accelbench.profiling.host.rules import INPUT, classify
from accelbench.profiling.host.stacks import Frame, Stack, Stacks
from accelbench.profiling.host.workers import sample_workers
from accelbench.profiling.records.script import WORKERS, CodeLine, ThreadLines

MOST_LINES = 5
MOST_THREADS = 3
"""Maximum number of other threads with lines."""
WORKERS_S = 2
"""Duration of the samples of worker processes in seconds."""
FEWEST_SAMPLES = 5
"""Minimum number of samples for shares of lines."""
BEGIN = "_bootstrap (multiprocessing/process.py"
"""First frame of a process that `multiprocessing` has started; py-spy names its class, too, if it knows it."""


class CodeLines(NamedTuple):
    """Lines of a script."""

    waiting: list[CodeLine]
    """Lines in which the main thread makes batches or waits for them."""
    host: list[CodeLine]
    """Lines of the rest of its time."""
    threads: list[ThreadLines]
    """Lines of other threads, and of worker processes."""


def sampled_lines(
    stacks: Stacks, pid: int, samples: Path, rate_hz: int, is_own: Callable[[str], Path | None], folder: Path
) -> tuple[CodeLines, list[str]]:
    """Return the lines of a process and of its worker processes, which are sampled now, and what is missing."""
    workers, reason = sample_workers(pid, samples, rate_hz, WORKERS_S)
    missing = [f"the lines of the worker processes: {reason}"] if reason else []
    return code_lines(stacks, pid, workers, is_own, folder), missing


def code_lines(
    stacks: Stacks,
    pid: int,
    workers: Mapping[int, Stacks],
    is_own: Callable[[str], Path | None],
    folder: Path,
) -> CodeLines:
    """Return the lines of a process, and of its worker processes by PID.

    `is_own` returns the path of a file of the user's own code. Files are named relative to `folder`.
    """
    parts: dict[bool, Counter[Stack]] = {True: Counter(), False: Counter()}
    others: dict[str, Counter[Stack]] = {}
    for stack, count in stacks.items():
        if stack.thread == pid:
            parts[classify(stack) == "input"][stack] += count
        else:
            others.setdefault(stack.thread_name, Counter())[stack] += count
    waiting, host = (_lines(parts[is_input], is_own, folder) for is_input in (True, False))
    threads = {name: _lines(found, is_own, folder) for name, found in others.items()}
    busiest = sorted(filter(threads.get, threads), key=lambda name: -others[name].total())[:MOST_THREADS]
    found = [ThreadLines(name=name or "thread", lines=threads[name]) for name in busiest]
    if lines := _lines(_work_of(workers, is_own), is_own, folder):
        found.insert(0, ThreadLines(name=WORKERS, lines=lines))
    return CodeLines(waiting, host, found)


def _work_of(workers: Mapping[int, Stacks], is_own: Callable[[str], Path | None]) -> Counter[Stack]:
    """Return the stacks of the main threads of the processes that run own code, from the begin of each process."""
    work = Counter[Stack]()
    for pid, stacks in workers.items():
        cut = Counter[Stack]()
        for stack, count in stacks.items():
            if stack.thread == pid:
                cut[_from_begin(stack)] += count
        if any(own_line(stack, is_own) for stack in cut):
            work += cut
    return work


def _from_begin(stack: Stack) -> Stack:
    """Return the stack of a worker without the frames of its parent, which a forked process still has."""
    begins = [at for at, frame in enumerate(stack.frames) if BEGIN in str(frame)]
    return replace(stack, frames=stack.frames[begins[-1] :]) if begins else stack


def own_line(stack: Stack, is_own: Callable[[str], Path | None]) -> tuple[Path, int, str] | None:
    """Return the innermost line of the user's own code: file, line and function; None without one."""
    for frame in reversed(stack.frames):
        if not INPUT.search(str(frame)) and (path := _own_file(frame, is_own)):
            return path, frame.line or 0, frame.name
    return None


def _own_file(frame: Frame, is_own: Callable[[str], Path | None]) -> Path | None:
    return is_own(frame.file) if frame.file.endswith(".py") else None


def _lines(stacks: Stacks, is_own: Callable[[str], Path | None], folder: Path) -> list[CodeLine]:
    total = sum(stacks.values())
    if total < FEWEST_SAMPLES:
        return []
    lines = Counter[tuple[Path, int, str]]()
    for stack, count in stacks.items():
        if found := own_line(stack, is_own):
            lines[found] += count
    return [
        CodeLine(file=_name(path, folder), line=line, function=function, share=count / total)
        for (path, line, function), count in lines.most_common(MOST_LINES)
    ]


def _name(path: Path, folder: Path) -> str:
    name = os.path.relpath(path, folder)
    return path.name if name.startswith("..") else name
