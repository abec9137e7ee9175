"""The operations of a trace by their own time, from raw events: for traces that xprof has no table of."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from profiling.records.trace import Operation
from profiling.trace.lines import Line, Trace
from profiling.trace.parts import DEVICE, STREAM, is_cpu_kernel

TOP = 20
"""The number of operations that are kept of each place."""
WRAPPER = re.compile(r"^(ThunkExecutor::Execute|CpuExecutable::ExecuteAsyncOnStream)$")


def operations(trace: Trace) -> list[Operation]:
    """Return what ran on the devices and, of the frameworks' operations, on the host; the longest first."""
    totals: dict[tuple[Literal["device", "host"], str], list[float]] = defaultdict(lambda: [0, 0.0])
    for line in trace.lines():
        on_device = bool(DEVICE.search(line.plane))
        for name, seconds in self_times(line, on_device):
            total = totals["device" if on_device else "host", name]
            total[0] += 1
            total[1] += seconds
    found = [Operation(name=n, where=w, occurrences=int(c), self_s=s) for (w, n), (c, s) in totals.items()]
    return sorted(found, key=lambda operation: -operation.self_s)


def longest(found: Sequence[Operation]) -> list[Operation]:
    """Return the first operations of each place, of those in order."""
    return [o for place in ("device", "host") for o in [o for o in found if o.where == place][:TOP]]


def self_times(line: Line, on_device: bool) -> Iterator[tuple[str, float]]:
    """Yield each operation of the line and the seconds that it ran without what it called."""
    if on_device:
        counts = np.full(len(line.names), bool(STREAM.search(line.name)))
    else:
        counts = np.asarray([is_cpu_kernel(line.name, name) and not WRAPPER.search(name) for name in line.names])
    chosen = counts[line.kinds]
    begins, ends = line.span(chosen)
    open_events: list[list[float]] = []  # name, end and own time of each event that has not ended
    order = np.lexsort((-ends, begins))
    for kind, begin, end in zip(*(a[order].tolist() for a in (line.kinds[chosen], begins, ends)), strict=True):
        while open_events and open_events[-1][1] <= begin:
            name, _, own = open_events.pop()
            yield line.names[int(name)], own * 1e-12
        if open_events:
            open_events[-1][2] -= min(end, open_events[-1][1]) - begin  # collectives may overlap
        open_events.append([kind, end, end - begin])
    for name, _, own in reversed(open_events):
        yield line.names[int(name)], own * 1e-12
