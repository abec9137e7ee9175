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

from accelbench.profiling.files import replace_file

SPEEDSCOPE_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
THREAD = re.compile(r"thread \((?P<id>0x[0-9a-fA-F]+|\d+)\)(?:: (?P<name>.*))?", re.DOTALL)
LOCATION = re.compile(r"(?P<name>.*) \((?P<file>[^()]*?)(?::(?P<line>\d+))?\)", re.DOTALL)


@dataclass(frozen=True)
class Frame:
    """A Python function of a stack, or a C or C++ function of a shared library."""

    name: str
    file: str = ""
    """The file as py-spy shortens it: `keras/src/trainers/trainer.py`, `libc.so.6`; `?` if unknown."""
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
    """The kernel's thread id, as in /proc; None if not recorded."""
    thread_name: str
    """Python's name of the thread, or an empty string."""
    frames: tuple[Frame, ...]

    def python_only(self) -> Stack:
        """Return the stack without its native frames."""
        return Stack(self.thread, self.thread_name, tuple(frame for frame in self.frames if frame.is_python))


Stacks: TypeAlias = Mapping[Stack, int]
"""Number of samples of each stack."""


def parse_stacks(text: str) -> Counter[Stack]:
    """Return the stacks of a collapsed file; raise ValueError for a line in another format."""
    stacks: Counter[Stack] = Counter()
    for line in text.split("\n"):
        if line.strip():
            frames, _, count = line.rpartition(" ")
            if not count.isdecimal() or not frames:
                raise ValueError(f"not a collapsed stack: {line!r}")
            stacks[parse_stack(frames)] += int(count)
    return stacks


def parse_stack(text: str) -> Stack:
    """Parse `thread (ID): NAME;frame;frame` into a stack; the thread is optional."""
    first, *rest = text.split(";")
    thread = THREAD.fullmatch(first)
    if thread is None:
        return Stack(None, "", tuple(parse_frame(part) for part in (first, *rest)))
    return Stack(int(thread["id"], 0), thread["name"] or "", tuple(parse_frame(part) for part in rest))


def parse_frame(text: str) -> Frame:
    """Parse `name (file:line)`, `name (library)` or `name` into a frame; a C++ name may contain parentheses."""
    location = LOCATION.fullmatch(text)
    if location is None:
        return Frame(text)
    return Frame(location["name"], location["file"], int(location["line"]) if location["line"] else None)


def threads_of(stacks: Stacks) -> dict[int | None, str]:
    """Return the names of the sampled threads by id."""
    return {stack.thread: stack.thread_name for stack in stacks}


def name_main_thread(stacks: Stacks, pid: int) -> Counter[Stack]:
    """Return the stacks with `MainThread` as the main thread's name, which py-spy omits without threads."""
    named: Counter[Stack] = Counter()
    for stack, count in stacks.items():
        nameless = stack.thread == pid and not stack.thread_name
        named[replace(stack, thread_name="MainThread") if nameless else stack] += count
    return named


def merge(parts: Iterable[Stacks]) -> Counter[Stack]:
    """Return the union of all stacks with summed counts."""
    merged: Counter[Stack] = Counter()
    for part in parts:
        merged.update(part)
    return merged


def write_speedscope(stacks: Stacks, path: Path, name: str) -> None:
    """Write a file for https://www.speedscope.app with one profile per thread; weights are numbers of samples.

    Source: the site's file-format-schema.json, "SampledProfile".
    """
    frames: dict[Frame, int] = {}
    profiles = []
    for thread, label in threads_of(stacks).items():
        counts = {stack: count for stack, count in stacks.items() if stack.thread == thread}
        # The order in time is not recorded: sorting places stacks with common callers next to each other.
        ordered = sorted(counts, key=lambda stack: tuple(map(str, stack.frames)))
        weights = [counts[stack] for stack in ordered]
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
    replace_file(path, lambda new: new.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8"))


def read_speedscope(text: str) -> Counter[Stack]:
    """Return the stacks of a file by `write_speedscope`; raise ValueError for any other content."""
    try:
        document = json.loads(text)
        frames = [Frame(one["name"], one.get("file", ""), one.get("line")) for one in document["shared"]["frames"]]
        stacks: Counter[Stack] = Counter()
        for profile in document["profiles"]:
            name, _, number = str(profile["name"]).removesuffix(")").rpartition(" (")
            thread = int(number) if number.isdecimal() else None
            for places, weight in zip(profile["samples"], profile["weights"], strict=True):
                stacks[Stack(thread, name, tuple(frames[place] for place in places))] += int(weight)
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError) as error:
        raise ValueError(f"no speedscope file of sampled stacks: {error}") from error
    return stacks


def _speedscope_frame(frame: Frame) -> dict[str, Any]:
    place: dict[str, Any] = {"file": frame.file} if frame.file else {}
    return {"name": frame.name} | place | ({} if frame.line is None else {"line": frame.line})
