"""Breakdown of the traced steps, computed from the raw events."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from accelbench.profiling.records.trace import PARTS, Breakdown, Part
from accelbench.profiling.trace.lines import Integers, Trace, TraceLine
from accelbench.profiling.trace.parts import (
    DEVICE,
    EPOCH,
    OPERATORS,
    STEP,
    STEP_END,
    STREAM,
    is_input_in_python,
    part_of,
)

INPUT_THREAD = re.compile(r"^\$thread\.py:\d+ run$|^\$py_dataset_adapter\w*\.py:\d+ get_index$")
"""The work of a thread of Python's pools, and of one of Keras's that makes batches, as JAX's profiler names it."""
HOST = PARTS.index("host")
NANOSECONDS = 9
"""The decimal places to which the seconds of each step's parts are kept."""
Seconds = NDArray[np.float64]
WITHOUT_REST = 0.8
"""The share of the steps from which on input is made all the time, but for what lies between two batches.

That was 0.05 to 0.11 where a thread of Python's made it without a rest; where the steps were bound otherwise, input was
made for less than 0.05 of them.
"""
WAITS = 0.05
"""The share of the steps from which on they wait for their input; xprof's bound for "moderately input-bound"."""


class Intervals:
    """The stretches of time in which something went on, in order and without overlap; in picoseconds."""

    def __init__(self, begins: Integers, ends: Integers) -> None:
        order = np.argsort(begins, kind="stable")
        begins, latest = begins[order], np.maximum.accumulate(ends[order]) if len(ends) else ends
        first = np.ones(len(begins), bool)
        first[1:] = begins[1:] > latest[:-1]  # it begins after all before it have ended
        self.begins: Integers = begins[first]
        self.ends: Integers = latest[np.append(np.flatnonzero(first)[1:] - 1, len(begins) - 1)] if len(ends) else ends

    def cover(self, moments: Integers) -> NDArray[np.bool_]:
        """Return whether each of the moments lies in one of the stretches."""
        if not len(self.begins):
            return np.zeros(len(moments), bool)
        place = np.searchsorted(self.begins, moments, "right") - 1
        return np.asarray((place >= 0) & (moments < self.ends[np.maximum(place, 0)]))


class Activity:
    """The activity that a trace shows, line by line: the steps, when each part went on, how busy each device was."""

    def __init__(self, trace: Trace) -> None:
        self.devices = [plane for plane in trace.planes if DEVICE.search(plane)]
        self.device_events = 0
        self._kernels: list[Integers] = []
        self._marks: dict[str, list[tuple[Integers, Integers]]] = defaultdict(list)
        self._parts: dict[Part, list[Intervals]] = defaultdict(list)
        self._input_in_python: list[Intervals] = []
        for line in trace.lines():
            self._add(line)
        begins, ends = self._marked(STEP)
        self.step_begins, self.step_ends = whole_steps(
            begins, ends, np.sort(np.concatenate([ends, self._marked(STEP_END)[1]])), np.sort(self._marked(EPOCH)[1])
        )

    def breakdown(self) -> Breakdown | None:
        """Return the mean step; None without a step marker."""
        if not len(self.step_begins):
            return None
        parts = {part: union(found) for part, found in self._parts.items()}
        seconds = exposed(self.step_begins, self.step_ends, parts)
        if self._input_in_python and self._is_held_up_by_input(seconds):
            parts["input_wait"] = union([*self._parts["input_wait"], *self._input_in_python])
            seconds = exposed(self.step_begins, self.step_ends, parts)
        steps = len(self.step_begins)
        kernels = np.sort(np.concatenate(self._kernels or [np.empty(0, np.int64)]))
        inside = Intervals(self.step_begins, self.step_ends).cover(kernels)
        return Breakdown(
            steps=steps,
            step_s=float(np.sum(self.step_ends - self.step_begins)) * 1e-12 / steps,
            parts={part: float(np.sum(of_part)) / steps for part, of_part in seconds.items()},
            of_steps={
                part: [round(its, NANOSECONDS) for its in of_part.tolist()]
                for part, of_part in seconds.items()
                if of_part.any()
            },
            kernels=float(np.count_nonzero(inside)) / steps,
        )

    def _is_held_up_by_input(self, seconds: Mapping[Part, Seconds]) -> bool:
        """Return whether the steps wait, or would wait, for input that Python makes: if it is made without a rest.

        That Python also holds the lock that the step's own Python needs: what looks like the host's time is then a
        wait for the input, too, and there may be no other.
        """
        total = sum(np.sum(of_part) for of_part in seconds.values())
        made = exposed(self.step_begins, self.step_ends, {"input_wait": union(self._input_in_python)})["input_wait"]
        return bool(np.sum(seconds["input_wait"]) > WAITS * total or np.sum(made) > WITHOUT_REST * total)

    def _marked(self, name: str) -> tuple[Integers, Integers]:
        """Return the beginning and the end of each event of that name, in order."""
        found = self._marks[name]
        begins, ends = (np.concatenate([pair[i] for pair in found] or [np.empty(0, np.int64)]) for i in (0, 1))
        order = np.argsort(begins, kind="stable")
        return begins[order], ends[order]

    def _add(self, line: TraceLine) -> None:
        if DEVICE.search(line.plane):
            self.device_events += len(line.kinds) if STREAM.search(line.name) else 0
        else:
            for mark in {STEP, STEP_END, EPOCH}.intersection(line.names):
                self._marks[mark].append(line.span(line.kinds == line.names.index(mark)))
        part_of_kind = np.full(len(line.names), HOST)
        for kind in np.unique(line.kinds).tolist():
            if is_input_in_python(line.name, line.names[kind]) or INPUT_THREAD.search(line.names[kind]):
                self._input_in_python.append(Intervals(*line.span(line.kinds == kind)))
            # The devices' lines come first: where they hold nothing, the CPU is what computes.
            part = part_of(line.plane, line.name, line.names[kind], cpu_is_device=self.device_events == 0)
            part_of_kind[kind] = HOST if part is None else PARTS.index(part)
        parts = part_of_kind[line.kinds]
        begins, ends = line.span(parts != HOST)
        parts = parts[parts != HOST]
        kernels = parts == PARTS.index("kernel")
        started = begins[kernels]
        if line.name.startswith(OPERATORS):  # they call others: the outermost are those that were started
            started = Intervals(started, ends[kernels]).begins
        self._kernels.append(started)
        for number in np.unique(parts).tolist():
            self._parts[PARTS[number]].append(Intervals(begins[parts == number], ends[parts == number]))


def union(found: Sequence[Intervals]) -> Intervals:
    return Intervals(np.concatenate([i.begins for i in found]), np.concatenate([i.ends for i in found]))


def whole_steps(begins: Integers, ends: Integers, before: Integers, epochs: Integers) -> tuple[Integers, Integers]:
    """Return when the steps that are marked from `begins` to `ends` really began and ended: each at the last one's end.

    `before` are the ends of steps in order, `epochs` the beginnings of epochs. An epoch's first step has the epoch's
    turn before it, and of a trace's first step the end before may be unknown: both are left out, as they are of the
    samples, unless there are no others.
    """
    place = np.searchsorted(before, begins, "right") - 1
    follows = place >= 0
    began = np.where(follows, before[np.maximum(place, 0)] if len(before) else begins, begins)
    turns = np.searchsorted(epochs, begins, "right") > np.searchsorted(epochs, began, "left")
    whole = follows & ~turns
    return (began[whole], ends[whole]) if whole.any() else (begins, ends)


def exposed(begins: Integers, ends: Integers, parts: Mapping[Part, Intervals]) -> dict[Part, Seconds]:
    """Return the seconds of each step in which each part is the first by precedence; the rest is the host's.

    A moment in several steps counts for the last of them that began.
    """
    edges = np.unique(np.concatenate([begins, ends, *(edge for p in parts.values() for edge in (p.begins, p.ends))]))
    moments, lengths = edges[:-1], np.diff(edges)
    owner = np.full(len(moments), HOST)
    for part in reversed(PARTS[:HOST]):
        if part in parts:
            owner[parts[part].cover(moments)] = PARTS.index(part)
    inside = Intervals(begins, ends).cover(moments)
    step = np.searchsorted(begins, moments[inside], "right") - 1
    cells = np.zeros((len(begins), len(PARTS)))
    np.add.at(cells, (step, owner[inside]), lengths[inside] * 1e-12)
    return {part: cells[:, number] for number, part in enumerate(PARTS)}
