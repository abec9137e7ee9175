"""Collapsed stacks in py-spy's format: each distinct stack once, root frame first, with its sample count.

The format is Brendan Gregg's (https://github.com/brendangregg/FlameGraph): `frame;frame;frame count`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

SPEEDSCOPE_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
THREAD = re.compile(r"thread \((?P<id>0x[0-9a-fA-F]+|\d+)\)(?:: (?P<name>.*))?", re.DOTALL)
LOCATION = re.compile(r"(?P<name>.*) \((?P<file>[^()]*?)(?::(?P<line>\d+))?\)", re.DOTALL)


@dataclass(frozen=True)
class Frame:
    """One function of a stack: a Python one, or a C or C++ one of a shared library."""

    name: str
    file: str = ""
    """The file as py-spy shortens it: `keras/src/trainers/trainer.py`, `libc.so.6`; `?` where it knows none."""
    line: int | None = None

    @property
    def is_python(self) -> bool:
        return self.file.endswith(".py") or self.file.startswith("<")

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{self.name} ({place})" if place else self.name


@dataclass(frozen=True)
class Stack:
    """The stack of one thread: its frames, root first."""

    thread: int | None
    """The kernel's thread id, the same as below /proc; None where it was not recorded."""
    thread_name: str
    """The name that Python gives the thread, or nothing."""
    frames: tuple[Frame, ...]

    def python_only(self) -> Stack:
        """Return the same stack as it is seen without native frames."""
        return Stack(self.thread, self.thread_name, tuple(frame for frame in self.frames if frame.is_python))


Stacks: TypeAlias = Mapping[Stack, int]
"""The number of times that each stack was seen."""


def parse_stacks(text: str) -> Counter[Stack]:
    """Return the stacks of a collapsed file; ValueError for a line that is none."""
    stacks: Counter[Stack] = Counter()
    for line in text.split("\n"):
        if line.strip():
            frames, _, count = line.rpartition(" ")
            if not count.isdecimal() or not frames:
                raise ValueError(f"not a collapsed stack: {line!r}")
            stacks[parse_stack(frames)] += int(count)
    return stacks


def parse_stack(text: str) -> Stack:
    """Return the stack that `thread (ID): NAME;frame;frame` stands for; the thread may be missing."""
    first, *rest = text.split(";")
    thread = THREAD.fullmatch(first)
    if thread is None:
        return Stack(None, "", tuple(parse_frame(part) for part in (first, *rest)))
    return Stack(int(thread["id"], 0), thread["name"] or "", tuple(parse_frame(part) for part in rest))


def parse_frame(text: str) -> Frame:
    """Return a frame from `name (file:line)`, `name (library)` or `name`; a C++ name may hold parentheses itself."""
    location = LOCATION.fullmatch(text)
    if location is None:
        return Frame(text)
    return Frame(location["name"], location["file"], int(location["line"]) if location["line"] else None)


def threads_of(stacks: Stacks) -> dict[int | None, str]:
    """Return the names of the threads that were seen."""
    return {stack.thread: stack.thread_name for stack in stacks}


def name_main_thread(stacks: Stacks, pid: int) -> Counter[Stack]:
    """Return the stacks with Python's name for the main thread, which has none in a program without threads."""
    named: Counter[Stack] = Counter()
    for stack, count in stacks.items():
        nameless = stack.thread == pid and not stack.thread_name
        named[replace(stack, thread_name="MainThread") if nameless else stack] += count
    return named


def merge(parts: Iterable[Stacks]) -> Counter[Stack]:
    """Return all stacks together, their counts added."""
    merged: Counter[Stack] = Counter()
    for part in parts:
        merged.update(part)
    return merged


def write_speedscope(stacks: Stacks, path: Path, name: str) -> None:
    """Write a file for https://www.speedscope.app, a profile per thread; stacks weigh as often as they were seen.

    Source: the site's file-format-schema.json, "SampledProfile".
    """
    frames: dict[Frame, int] = {}
    profiles = []
    for thread, label in threads_of(stacks).items():
        mine = {stack: count for stack, count in stacks.items() if stack.thread == thread}
        # The order in time was not recorded: stacks that begin alike come to stand side by side.
        ordered = sorted(mine, key=lambda stack: tuple(map(str, stack.frames)))
        weights = [mine[stack] for stack in ordered]
        profiles.append(
            {
                "type": "sampled",
                "name": f"{label or 'thread'} ({thread})" if thread is not None else "all threads",
                "unit": "none",
                "startValue": 0,
                "endValue": sum(weights),
                "samples": [[frames.setdefault(frame, len(frames)) for frame in stack.frames] for stack in ordered],
                "weights": weights,
            }
        )
    document = {
        "$schema": SPEEDSCOPE_SCHEMA,
        "shared": {"frames": [_speedscope_frame(frame) for frame in frames]},
        "profiles": profiles,
        "name": name,
        "activeProfileIndex": 0,
        "exporter": "accelbench",
    }
    path.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")


def _speedscope_frame(frame: Frame) -> dict[str, Any]:
    place: dict[str, Any] = {"file": frame.file} if frame.file else {}
    return {"name": frame.name} | place | ({} if frame.line is None else {"line": frame.line})
