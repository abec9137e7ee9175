"""Reader of PyTorch's traces, `*.pt.trace.json.gz`: Chrome's Trace Event Format as written by Kineto.

Categories (`cat`) of events (pytorch/kineto, libkineto/src/output_json.cpp): `cpu_op` is an operator; `kernel`,
`gpu_memcpy` and `gpu_memset` ran on a GPU; `cuda_runtime` is a CUDA call; `user_annotation` is a mark.
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
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, FiniteFloat, ValidationError

from accelbench.profiling.machine.identity import HOST
from accelbench.profiling.trace.lines import Integers, Unreadable
from accelbench.profiling.trace.parts import INPUT, INPUT_MADE, OPERATORS, STEP

FILES = "*.pt.trace.json.gz"
"""The names of the files, within the trace's folder: PyTorch's own, which its TensorBoard plug-in looks for, too."""
KEPT = ("schemaVersion", "deviceProperties", "displayTimeUnit", "baseTimeNanoseconds", "traceEvents")
"""The parts of the document that are kept; others name the host and the folder."""
ON_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
ON_HOST = frozenset({"cpu_op", "user_annotation", "cuda_runtime", "cuda_driver"})
NUMBERED_STEP = re.compile(r"^ProfilerStep#\d+$")
"""The name of a step's mark, as PyTorch's own tools look for it."""
BACKEND = re.compile(r"^(gloo|mpi):")
"""The marks that a CPU's collectives leave, from their start to their end, on a thread of the backend's own."""
MEMORY, CPU_TYPE = "[memory]", 0
"""The name of an allocation, and the CPU's number in c10's `DeviceType`."""
LONGEST_US = 1e12
"""The microseconds that a trace may span: eleven days, whose picoseconds are still whole numbers of 64 bits."""

Moment = Annotated[FiniteFloat, Field(ge=-1e15, le=1e15)]
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
    ts: Moment = 0.0
    dur: Annotated[FiniteFloat, Field(ge=0, le=1e15)] = 0.0
    args: EventArguments | None = None


class TracedDevice(BaseModel):
    """One GPU that the trace lists."""

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
        """Return when each of the chosen events began and ended, in picoseconds from the trace's first."""
        return self.begins[chosen], self.ends[chosen]


class ChromeTrace:
    """One `*.pt.trace.json.gz`, read at once."""

    def __init__(self, path: Path) -> None:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise Unreadable(f"{path}: {error.strerror}") from error
        self.size = len(data)
        self.errors: list[str] = []
        document = parse(path.name, data)
        self._events = [e for e in document.events if e.ph == "X" and e.cat in ON_DEVICE | ON_HOST]
        self._base = min((event.ts for event in self._events), default=0.0)
        if max((event.ts + event.dur for event in self._events), default=0.0) - self._base > LONGEST_US:
            raise Unreadable(f"{path.name} spans more than {LONGEST_US:.0e} µs")
        gpus = {str(device.id) for device in document.devices}
        gpus |= {str(event.pid) for event in self._events if event.cat in ON_DEVICE}
        self.planes = ["/host:CPU", *(f"/device:GPU:{gpu}" for gpu in sorted(gpus))]
        allocations = [event.args for event in document.events if event.name == MEMORY and event.args]
        self.memory_peak_bytes = max((a.allocated for a in allocations if a.device_type != CPU_TYPE), default=None)

    def lines(self) -> Iterator[ChromeLine]:
        """Yield the streams of the devices, then of each thread its operators and all else."""
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
            operators, others = sort_out(events)
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

    def _picoseconds(self, moments: Iterable[float]) -> Integers:
        """Return the moments, which are kept to the nanosecond, from the trace's first on."""
        microseconds = np.fromiter(moments, float) - self._base
        return np.asarray(np.rint(microseconds * 1e3), np.int64) * 1000


def parse(name: str, data: bytes) -> ChromeDocument:
    """Return the document that the file holds; Unreadable if it is none."""
    if not data:
        raise Unreadable(f"{name} is empty: the profiler did not finish writing it")
    try:
        return ChromeDocument.model_validate_json(gzip.decompress(data))
    except (OSError, EOFError, zlib.error) as error:
        raise Unreadable(f"{name} is cut short, or not compressed by gzip: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        said = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
        raise Unreadable(f"{name} is no trace of a known version: {said}") from error


def sort_out(events: Sequence[ChromeEvent]) -> tuple[list[ChromeEvent], list[ChromeEvent]]:
    """Return a thread's operators, but for those that make its input, and all else that went on there."""
    operators, others = list[ChromeEvent](), list[ChromeEvent]()
    input_end = -np.inf
    for event in sorted(events, key=lambda event: (event.ts, -event.dur)):
        if event.name == INPUT_MADE or INPUT.search(event.name):
            input_end = max(input_end, event.ts + event.dur)
        is_operator = event.cat == "cpu_op" or bool(BACKEND.search(event.name))
        (operators if is_operator and event.ts >= input_end else others).append(event)
    return operators, others


def plain(name: str) -> str:
    """Return the name of an event, that of a step without its number."""
    return STEP if NUMBERED_STEP.search(name) else name


def finish(raw: Path, new: Path) -> None:
    """Write what PyTorch wrote again, compressed and without the host's and the folder's name.

    Raises `OSError`, or `Unreadable` where PyTorch wrote no whole trace.
    """
    try:
        document = json.loads(raw.read_bytes())
        kept = {"host_name": HOST} | {key: document[key] for key in KEPT}
    except (FileNotFoundError, ValueError, LookupError, TypeError) as error:
        raise Unreadable(f"PyTorch wrote no whole trace (is the disk full?): {error}") from error
    try:
        new.write_bytes(gzip.compress(json.dumps(kept, separators=(",", ":")).encode()))
    except OSError:
        new.unlink(missing_ok=True)
        raise
