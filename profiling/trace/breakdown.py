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
"""Functions of threads that prepare batches, in Python's pools and in Keras, as named by JAX's profiler."""
HOST = PARTS.index("host")
NANOSECONDS = 9
"""Decimal places of the stored seconds of each step's parts."""
Seconds = NDArray[np.float64]
CONTINUOUS_INPUT = 0.8
"""Minimum share of the step time for continuous preparation of input.

With a continuously busy Python thread, the gaps between batches were 0.05 to 0.11 of the step time; in steps with
another bottleneck, input was prepared for less than 0.05 of the step time.
"""
SLOWED, FEWEST_KERNELS = 4.0, 10
"""Minimum ratio of the rates at which steps start kernels without and with preparation of input in Python, from which
steps wait for the GIL (a thread in a Python loop releases it every 5 ms), and smallest number of kernels per step."""
INPUT_BOUND = 0.05
"""Minimum share of the step time for input-bound steps; xprof's threshold of "moderately input-bound"."""


class Intervals:
    """Sorted intervals without overlap, in picoseconds; overlapping input intervals are merged."""

    def __init__(self, begins: Integers, ends: Integers) -> None:
        order = np.argsort(begins, kind="stable")
        begins, latest = begins[order], np.maximum.accumulate(ends[order]) if len(ends) else ends
        first = np.ones(len(begins), bool)
        first[1:] = begins[1:] > latest[:-1]  # starts after the end of all earlier intervals
        self.begins: Integers = begins[first]
        self.ends: Integers = latest[np.append(np.flatnonzero(first)[1:] - 1, len(begins) - 1)] if len(ends) else ends

    def cover(self, times: Integers) -> NDArray[np.bool_]:
        """Return whether each time lies in one of the intervals."""
        if not len(self.begins):
            return np.zeros(len(times), bool)
        index = np.searchsorted(self.begins, times, "right") - 1
        return np.asarray((index >= 0) & (times < self.ends[np.maximum(index, 0)]))


class Activity:
    """Steps, device events and intervals of each part of a step, collected from the lines of a trace."""

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
        self.step_begins, self.step_ends = complete_steps(
            begins, ends, np.sort(np.concatenate([ends, self._marked(STEP_END)[1]])), np.sort(self._marked(EPOCH)[1])
        )

    def breakdown(self) -> Breakdown | None:
        """Return the breakdown of the mean step; None without a step marker."""
        if not len(self.step_begins):
            return None
        parts = {part: union(found) for part, found in self._parts.items()}
        seconds = exposed(self.step_begins, self.step_ends, parts)
        kernels = np.sort(np.concatenate(self._kernels or [np.empty(0, np.int64)]))
        kernels = kernels[Intervals(self.step_begins, self.step_ends).cover(kernels)]
        if self._input_in_python and self._is_input_bound(seconds, kernels):
            parts["input_wait"] = union([*self._parts["input_wait"], *self._input_in_python])
            seconds = exposed(self.step_begins, self.step_ends, parts)
        steps = len(self.step_begins)
        return Breakdown(
            steps=steps,
            step_s=float(np.sum(self.step_ends - self.step_begins)) * 1e-12 / steps,
            parts={part: float(np.sum(of_part)) / steps for part, of_part in seconds.items()},
            of_steps={
                part: [round(value, NANOSECONDS) for value in of_part.tolist()]
                for part, of_part in seconds.items()
                if of_part.any()
            },
            kernels=len(kernels) / steps,
        )

    def _is_input_bound(self, seconds: Mapping[Part, Seconds], kernels: Integers) -> bool:
        """Return whether the steps wait for input prepared in Python, or for the GIL, which such threads hold.

        The step's own Python code needs the GIL: apparent host time is then also a wait for input.
        """
        total = sum(np.sum(of_part) for of_part in seconds.values())
        made = union(self._input_in_python)
        made_s = np.sum(exposed(self.step_begins, self.step_ends, {"input_wait": made})["input_wait"])
        if np.sum(seconds["input_wait"]) > INPUT_BOUND * total or made_s > CONTINUOUS_INPUT * total:
            return True
        meanwhile = np.count_nonzero(made.cover(kernels))
        slowed = SLOWED * meanwhile * (total - made_s) < (len(kernels) - meanwhile) * made_s
        return bool(made_s > INPUT_BOUND * total and slowed and len(kernels) >= FEWEST_KERNELS * len(self.step_begins))

    def _marked(self, name: str) -> tuple[Integers, Integers]:
        """Return begin and end of each event with this name, sorted."""
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
            # The devices' lines come first: if they have no events, the CPU is the device.
            part = part_of(line.plane, line.name, line.names[kind], cpu_is_device=self.device_events == 0)
            part_of_kind[kind] = HOST if part is None else PARTS.index(part)
        parts = part_of_kind[line.kinds]
        begins, ends = line.span(parts != HOST)
        parts = parts[parts != HOST]
        kernels = parts == PARTS.index("kernel")
        started = begins[kernels]
        if line.name.startswith(OPERATORS):  # nested operators: only the outermost count
            started = Intervals(started, ends[kernels]).begins
        self._kernels.append(started)
        for number in np.unique(parts).tolist():
            self._parts[PARTS[number]].append(Intervals(begins[parts == number], ends[parts == number]))


def union(found: Sequence[Intervals]) -> Intervals:
    return Intervals(np.concatenate([i.begins for i in found]), np.concatenate([i.ends for i in found]))


def complete_steps(begins: Integers, ends: Integers, before: Integers, epochs: Integers) -> tuple[Integers, Integers]:
    """Return begin and end of the complete steps; a step begins at the end of the previous one.

    `begins` and `ends` are those of the step markers, `before` the sorted ends of steps, `epochs` the sorted starts of
    epochs. Each epoch's first step, and a trace's first step without a known previous end, are omitted, as they are
    from the samples, unless there are no other steps.
    """
    index = np.searchsorted(before, begins, "right") - 1
    has_previous = index >= 0
    began = np.where(has_previous, before[np.maximum(index, 0)] if len(before) else begins, begins)
    starts_epoch = np.searchsorted(epochs, begins, "right") > np.searchsorted(epochs, began, "left")
    complete = has_previous & ~starts_epoch
    return (began[complete], ends[complete]) if complete.any() else (begins, ends)


def exposed(begins: Integers, ends: Integers, parts: Mapping[Part, Intervals]) -> dict[Part, Seconds]:
    """Return the seconds of each part in each step; where parts overlap, the first one in `PARTS` counts.

    The remaining time is `host`. Time in several overlapping steps counts for the one that began last.
    """
    edges = np.unique(np.concatenate([begins, ends, *(edge for p in parts.values() for edge in (p.begins, p.ends))]))
    times, lengths = edges[:-1], np.diff(edges)
    owner = np.full(len(times), HOST)
    for part in reversed(PARTS[:HOST]):
        if part in parts:
            owner[parts[part].cover(times)] = PARTS.index(part)
    inside = Intervals(begins, ends).cover(times)
    step = np.searchsorted(begins, times[inside], "right") - 1
    cells = np.zeros((len(begins), len(PARTS)))
    np.add.at(cells, (step, owner[inside]), lengths[inside] * 1e-12)
    return {part: cells[:, number] for number, part in enumerate(PARTS)}
