"""Operations of a trace by self time, from raw events, for traces without xprof's operation table."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import inf
from typing import Literal, TypedDict

import numpy as np

from accelbench.profiling.records.trace import Operation, OperationKind
from accelbench.profiling.trace.lines import Trace, TraceLine
from accelbench.profiling.trace.parts import DEVICE, STREAM, is_cpu_kernel

TOP = 20
"""Maximum number of operations, and of kinds of operations, for host and device each."""
Place = Literal["device", "host"]
PLACES: tuple[Place, ...] = ("device", "host")
ARGUMENTS = re.compile(r"[<(].*$", re.DOTALL)
"""Template and call arguments in a kernel's name: `void gemm<float, 128>(float*)`."""
NUMBER = re.compile(r"(?:[._]\d+)+$")
"""Number suffix of an XLA operation, as in `fusion.12`, or of a Keras layer, as in `dense_1`."""
WRAPPER = re.compile(r"^(ThunkExecutor::Execute|CpuExecutable::ExecuteAsyncOnStream)$")


def operations(trace: Trace) -> list[Operation]:
    """Return all operations on the devices, and the frameworks' operations on the host."""
    totals: dict[tuple[Place, str], list[float]] = defaultdict(lambda: [0, 0.0])
    for line in trace.lines():
        on_device = bool(DEVICE.search(line.plane))
        for name, seconds in self_times(line, on_device):
            total = totals["device" if on_device else "host", name]
            total[0] += 1
            total[1] += seconds
    return [Operation(name=n, where=w, occurrences=int(c), self_s=s) for (w, n), (c, s) in totals.items()]


class LongestOperations(TypedDict):
    """Longest operations of a trace and their kinds."""

    operations: list[Operation]
    kinds: list[OperationKind]


def longest(found: Sequence[Operation]) -> LongestOperations:
    """Return the operations with the longest self time on each place (device, host), and the longest kinds."""
    operations, kinds = list[Operation](), list[OperationKind]()
    for place in PLACES:
        on_place = sorted((o for o in found if o.where == place), key=lambda operation: -operation.self_s)
        total_s = sum(operation.self_s for operation in on_place) or inf
        operations += [o.model_copy(update={"share": o.self_s / total_s}) for o in on_place[:TOP]]
        by_kind: dict[str, list[Operation]] = {}
        for operation in on_place:
            by_kind.setdefault(operation.kind or without_number(operation.name), []).append(operation)
        found_kinds = [_kind(kind, place, members, total_s) for kind, members in by_kind.items()]
        kinds += sorted(found_kinds, key=lambda kind: -kind.self_s)[:TOP]
    return {"operations": operations, "kinds": kinds}


def without_number(name: str) -> str:
    """Return the kind of an operation: its name without number suffix, template arguments and call arguments."""
    return NUMBER.sub("", ARGUMENTS.sub("", name)) or name


def _kind(kind: str, where: Place, members: Sequence[Operation], total_s: float) -> OperationKind:
    self_s = sum(operation.self_s for operation in members)
    occurrences = sum(operation.occurrences for operation in members)
    return OperationKind(
        kind=kind, where=where, operations=len(members), occurrences=occurrences, self_s=self_s, share=self_s / total_s
    )


def self_times(line: TraceLine, on_device: bool) -> Iterator[tuple[str, float]]:
    """Yield the name and self time in seconds of each operation of a line."""
    if on_device:
        counts = np.full(len(line.names), bool(STREAM.search(line.name)))
    else:
        counts = np.asarray([is_cpu_kernel(line.name, name) and not WRAPPER.search(name) for name in line.names])
    chosen = counts[line.kinds]
    begins, ends = line.span(chosen)
    open_events: list[list[float]] = []  # name index, end and self time of each nested event that has not ended
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
