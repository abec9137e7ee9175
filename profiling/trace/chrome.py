"""Reader of PyTorch's traces, `*.pt.trace.json.gz`: Chrome's Trace Event Format as written by Kineto.

Categories (`cat`) of events (pytorch/kineto, libkineto/src/output_json.cpp): `cpu_op` is an operator; `kernel`,
`gpu_memcpy` and `gpu_memset` ran on a GPU; `cuda_runtime` is a CUDA call; `user_annotation` is a marker.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, FiniteFloat, ValidationError

from accelbench.profiling.machine.identity import HOST
from accelbench.profiling.trace.lines import Integers, Unreadable
from accelbench.profiling.trace.parts import INPUT, INPUT_MADE, OPERATORS, STEP

FILES = "*.pt.trace.json.gz"
"""Pattern of file names in the trace folder, as used by PyTorch and its TensorBoard plug-in."""
KEPT = ("schemaVersion", "deviceProperties", "displayTimeUnit", "baseTimeNanoseconds", "traceEvents")
"""Keys of the document that are kept; others contain names of the host and folder."""
ON_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
ON_HOST = frozenset({"cpu_op", "user_annotation", "cuda_runtime", "cuda_driver"})
NUMBERED_STEP = re.compile(r"^ProfilerStep#\d+$")
"""Name of a step marker, as in PyTorch's own tools."""
BACKEND = re.compile(r"^(gloo|mpi):")
"""Markers of CPU collectives, from start to end, on a thread of the communication backend."""
MEMORY, CPU_TYPE = "[memory]", 0
"""Name of an allocation event, and the value of the CPU in c10's `DeviceType`."""
MAX_US = 1e12
"""Maximum length of a trace in microseconds (eleven days), so that picoseconds fit into 64 bits."""

LATEST_US = 1e15
"""Latest time of an event in microseconds, since the document's `baseTimeNanoseconds` or the start of the machine."""

Timestamp = Annotated[FiniteFloat, Field(ge=-LATEST_US, le=LATEST_US)]
Identifier = int | str


class EventArguments(BaseModel):
    """Arguments of an allocation event."""

    device_type: int = Field(alias="Device Type", default=CPU_TYPE)
    allocated: int = Field(alias="Total Allocated", default=0)


class ChromeEvent(BaseModel):
    """One event of the file; times in microseconds."""

    ph: str
    cat: str = ""
    name: str = ""
    pid: Identifier = ""
    tid: Identifier = ""
    ts: Timestamp = 0.0
    dur: Annotated[FiniteFloat, Field(ge=0, le=1e15)] = 0.0
    args: EventArguments | None = None


class TracedDevice(BaseModel):
    """A GPU in the trace."""

    id: int


class ChromeDocument(BaseModel):
    """Content of the file."""

    devices: list[TracedDevice] = Field([], alias="deviceProperties")
    events: list[ChromeEvent] = Field(alias="traceEvents")


@dataclass(frozen=True)
class ChromeLine:
    """Events of a stream, operators of a thread, or other events of a thread."""

    plane: str
    name: str
    names: list[str]
    kinds: Integers
    begins: Integers
    ends: Integers

    def span(self, chosen: NDArray[np.bool_]) -> tuple[Integers, Integers]:
        """Return begin and end of the chosen events, in picoseconds since the trace's first event."""
        return self.begins[chosen], self.ends[chosen]


class ChromeTrace:
    """A `*.pt.trace.json.gz` file, read completely."""

    def __init__(self, path: Path) -> None:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise Unreadable(f"{path}: {error.strerror}") from error
        self.size = len(data)
        document, left_out = parse(path.name, data)
        self.errors = [left_out] if left_out else []
        self._events = [e for e in document.events if e.ph == "X" and e.cat in ON_DEVICE | ON_HOST]
        self._base = min((event.ts for event in self._events), default=0.0)
        if max((event.ts + event.dur for event in self._events), default=0.0) - self._base > MAX_US:
            raise Unreadable(f"{path.name} spans more than {MAX_US:.0e} µs")
        gpus = {str(device.id) for device in document.devices}
        gpus |= {str(event.pid) for event in self._events if event.cat in ON_DEVICE}
        self.planes = ["/host:CPU", *(f"/device:GPU:{gpu}" for gpu in sorted(gpus))]
        allocations = [event.args for event in document.events if event.name == MEMORY and event.args]
        self.memory_peak_bytes = max((a.allocated for a in allocations if a.device_type != CPU_TYPE), default=None)

    def lines(self) -> Iterator[ChromeLine]:
        """Yield the devices' streams, then the operators and the other events of each thread."""
        streams: dict[tuple[Identifier, Identifier], list[ChromeEvent]] = defaultdict(list)
        threads: dict[tuple[Identifier, Identifier], list[ChromeEvent]] = defaultdict(list)
        for event in self._events:
            if event.cat in ON_DEVICE:
                streams[event.pid, event.tid].append(event)
            else:
                threads[event.pid, event.tid].append(event)
        for (gpu, stream), events in streams.items():
            yield self._line(f"/device:GPU:{gpu}", f"Stream #{stream}", events)
        for number, events in enumerate(threads.values()):
            operators, others = split_operators(events)
            if operators:
                yield self._line("/host:CPU", f"{OPERATORS}/{number}", operators)
            if others:
                yield self._line("/host:CPU", f"thread/{number}", others)

    def _line(self, plane: str, name: str, events: Sequence[ChromeEvent]) -> ChromeLine:
        names = sorted({plain(event.name) for event in events})
        place = {name: number for number, name in enumerate(names)}
        return ChromeLine(
            plane,
            name,
            names,
            np.asarray([place[plain(event.name)] for event in events], np.int64),
            self._picoseconds(event.ts for event in events),
            self._picoseconds(event.ts + event.dur for event in events),
        )

    def _picoseconds(self, times: Iterable[float]) -> Integers:
        """Convert times in microseconds, which have nanosecond resolution, to picoseconds since the first event."""
        microseconds = np.fromiter(times, float) - self._base
        return np.asarray(np.rint(microseconds * 1e3), np.int64) * 1000


def parse(name: str, data: bytes) -> tuple[ChromeDocument, str | None]:
    """Return the content of a trace file, and how many invalid events were left out, as text.

    Raises Unreadable for a file that is no trace, or without a valid event.
    """
    if not data:
        raise Unreadable(f"{name} is empty: the profiler did not finish writing it")
    try:
        text = gzip.decompress(data).decode(errors="replace")
        return ChromeDocument.model_validate_json(text), None
    except (OSError, EOFError, zlib.error) as error:
        raise Unreadable(f"{name} is truncated or not compressed by gzip: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        reason = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
    try:
        document, invalid = _without_invalid_events(json.loads(text))
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise Unreadable(f"{name} is not a trace of a known version: {reason}") from error
    if not document.events:
        raise Unreadable(f"{name} is not a trace of a known version: {reason}{_since_1970(invalid)}")
    total = len(document.events) + len(invalid)
    return document, f"{len(invalid):,} of {total:,} events are invalid and were left out ({reason})"


def _without_invalid_events(content: dict[str, Any]) -> tuple[ChromeDocument, list[Any]]:
    """Return the document with the valid events, and the invalid ones."""
    valid, invalid = list[ChromeEvent](), []
    for event in content["traceEvents"]:
        try:
            valid.append(ChromeEvent.model_validate(event))
        except ValidationError:
            invalid.append(event)
    return ChromeDocument.model_validate(content | {"traceEvents": valid}), invalid


def _since_1970(events: Sequence[Any]) -> str:
    """Return the explanation of times that are too late for their precision; empty without such a time."""
    times = (event.get("ts") for event in events if isinstance(event, dict))
    if not any(isinstance(time, int | float) and time > LATEST_US for time in times):
        return ""
    return " (times in microseconds since 1970, as older versions of PyTorch write: record it with a newer one)"


def split_operators(events: Sequence[ChromeEvent]) -> tuple[list[ChromeEvent], list[ChromeEvent]]:
    """Return a thread's operators, except those that prepare input, and its other events."""
    operators, others = list[ChromeEvent](), list[ChromeEvent]()
    input_end = -np.inf
    for event in sorted(events, key=lambda event: (event.ts, -event.dur)):
        if event.name == INPUT_MADE or INPUT.search(event.name):
            input_end = max(input_end, event.ts + event.dur)
        is_operator = event.cat == "cpu_op" or bool(BACKEND.search(event.name))
        (operators if is_operator and event.ts >= input_end else others).append(event)
    return operators, others


def plain(name: str) -> str:
    """Return the event's name, without the number of a step."""
    return STEP if NUMBERED_STEP.search(name) else name


def finish(raw: Path, new: Path) -> None:
    """Rewrite PyTorch's trace: compress it, and remove host name and paths.

    Raises OSError if it cannot be written, or Unreadable if PyTorch's file is missing, incomplete or invalid. Only an
    invalid file is kept; an incomplete one, as on a full disk, is of no use.
    """
    try:
        content = raw.read_bytes()
    except FileNotFoundError as error:
        raise Unreadable(f"PyTorch wrote no trace (is the disk full?): {error}") from error
    try:
        document = json.loads(content.decode(errors="replace"))
        kept = {"host_name": HOST} | {key: document[key] for key in KEPT}
    except (ValueError, LookupError, TypeError) as error:
        if content.rstrip().endswith(b"}"):
            raise Unreadable(f"PyTorch's trace {raw.name} is invalid, and was kept: {error}") from error
        raw.unlink()
        raise Unreadable(f"PyTorch's trace is incomplete (is the disk full?): {error}") from error
    try:
        new.write_bytes(gzip.compress(json.dumps(kept, separators=(",", ":")).encode()))
    except OSError:
        new.unlink(missing_ok=True)
        raise
    finally:
        raw.unlink()
