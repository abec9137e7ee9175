"""Reader of `*.xplane.pb` traces: line by line, without TensorFlow, in bounded memory.

The format is the protocol buffer `XSpace` (openxla/xla, xla/tsl/profiler/protobuf/xplane.proto): planes (a host, a
device) contain lines (a thread, a stream), lines contain events. Only the required fields are declared here; protobuf
preserves the others. Planes, lines and metadata are declared as bytes, so that one line at a time is parsed, and never
the complete file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelbench.profiling.files import replace_file
from accelbench.profiling.machine.identity import HOST
from accelbench.profiling.trace.lines import Integers, Unreadable

CLOSING_PLANE = "Task Environment"
"""Name of the plane that the profiler writes last."""

SUFFIX = ".xplane.pb"
"""Suffix of a trace's file name; the profilers use the host's name as stem."""

INT, MESSAGE, BYTES = 3, 11, 12  # FieldDescriptorProto.Type; names are bytes because some are not valid UTF-8
FIELDS = {
    "XSpace": {"planes": (1, BYTES, True), "errors": (2, BYTES, True), "hostnames": (4, BYTES, True)},
    "XPlane": {"name": (2, BYTES, False), "lines": (3, BYTES, True), "event_metadata": (4, BYTES, True)},
    "XLine": {
        "name": (2, BYTES, False),
        "timestamp_ns": (3, INT, False),
        "events": (4, MESSAGE, True),
        "display_name": (11, BYTES, False),
    },
    "XEvent": {"metadata_id": (1, INT, False), "offset_ps": (2, INT, False), "duration_ps": (3, INT, False)},
    "XEventMetadataEntry": {"key": (1, INT, False), "value": (2, MESSAGE, False)},
    "XEventMetadata": {"name": (2, BYTES, False), "display_name": (4, BYTES, False)},
}
"""Fields of each message: number, type, whether repeated."""
NESTED = {("XLine", "events"): "XEvent", ("XEventMetadataEntry", "value"): "XEventMetadata"}


@dataclass(frozen=True)
class XplaneLine:
    """Events of one thread or stream, in file order."""

    plane: str
    name: str
    names: list[str]
    """Names of the plane's kinds of events."""
    kinds: Integers
    """Index into `names` of each event."""
    message: Any
    base_ns: int
    """Time origin of all lines, in nanoseconds."""

    def span(self, chosen: NDArray[np.bool_]) -> tuple[Integers, Integers]:
        """Return begin and end of the chosen events, in picoseconds since the common origin of all lines."""
        events, wanted, count = self.message.events, chosen.tolist(), int(np.count_nonzero(chosen))
        start = (self.message.timestamp_ns - self.base_ns) * 1000
        begins = np.fromiter((event.offset_ps for event in compress(events, wanted)), np.int64, count) + start
        return begins, begins + np.fromiter((event.duration_ps for event in compress(events, wanted)), np.int64, count)


class XplaneTrace:
    """An `*.xplane.pb` file, whose lines are parsed on iteration."""

    memory_peak_bytes: int | None = None
    """Unknown from raw events; xprof reads the allocations."""

    def __init__(self, path: Path) -> None:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise Unreadable(f"{path}: {error.strerror}") from error
        if not data:
            raise Unreadable(f"{path.name} is empty: the profiler did not finish writing it")
        self.size = len(data)
        self._space = parse("XSpace", data)
        del data  # memory: a trace can be large
        self.errors = [text(error) for error in self._space.errors]
        """Errors reported by the profiler, including CUPTI's."""
        self._planes = [parse("XPlane", plane) for plane in self._space.planes]
        self._planes.sort(key=lambda plane: not plane.name.startswith(b"/device:"))
        del self._space.planes[:]
        self._base_ns = 0
        self.planes = [text(plane.name) for plane in self._planes]
        if CLOSING_PLANE not in self.planes:
            raise Unreadable(f"{path.name} has no plane {CLOSING_PLANE!r}: truncated, or of another profiler version")

    def lines(self) -> Iterator[XplaneLine]:
        """Yield all lines of all planes, those of devices first, with one line in memory at a time."""
        for plane in self._planes:
            lookup, names = metadata(plane)
            for message in map(self._line, plane.lines):
                ids = np.fromiter((event.metadata_id for event in message.events), np.int64, len(message.events))
                name = text(message.display_name or message.name)
                yield XplaneLine(text(plane.name), name, names, kinds_of(ids, lookup), message, self._base_ns)

    def cut(self, until_ps: int, path: Path) -> None:
        """Write the trace without the events that begin after `until_ps`."""
        space = messages()["XSpace"]()
        space.CopyFrom(self._space)
        for plane in self._planes:
            kept = messages()["XPlane"]()
            kept.CopyFrom(plane)
            del kept.lines[:]
            for message in map(self._line, plane.lines):
                latest = until_ps - (message.timestamp_ns - self._base_ns) * 1000
                events = messages()["XLine"](events=[e for e in message.events if e.offset_ps <= latest])
                message.ClearField("events")
                message.MergeFrom(events)
                kept.lines.append(message.SerializeToString())
            space.planes.append(kept.SerializeToString())
        path.write_bytes(space.SerializeToString())

    def _line(self, raw: bytes) -> Any:
        """Parse one line; the start of the first parsed line becomes the time origin of all lines."""
        message = parse("XLine", raw)
        self._base_ns = self._base_ns or message.timestamp_ns
        return message


def remove_host(file: Path) -> Path:
    """Remove the host's name from a trace and from the names of all files of this trace.

    Returns the trace's new path, `localhost.xplane.pb`. Raises OSError, or Unreadable for an invalid trace.
    """
    space = parse("XSpace", file.read_bytes())
    space.hostnames[:] = [HOST.encode()] * len(space.hostnames)
    named = file.with_name(f"{HOST}{SUFFIX}")
    replace_file(named, lambda new: new.write_bytes(space.SerializeToString()))
    host = file.name.removesuffix(SUFFIX)
    if host != HOST:
        file.unlink()
        for other in [path for path in file.parent.iterdir() if path.name.startswith(f"{host}.")]:
            other.replace(file.with_name(HOST + other.name.removeprefix(host)))
    return named


def metadata(plane: Any) -> tuple[dict[int, int], list[str]]:
    """Return a plane's index by metadata id, and its names of events; index 0 is for undeclared ids."""
    lookup, names = {}, [""]
    for raw in plane.event_metadata:
        entry = parse("XEventMetadataEntry", raw)
        lookup[entry.key] = len(names)
        names.append(text(entry.value.name or entry.value.display_name))
    return lookup, names


def kinds_of(ids: Integers, lookup: dict[int, int]) -> Integers:
    """Return the index into the names for each event's metadata id."""
    unique, inverse = np.unique(ids, return_inverse=True)
    return np.asarray([lookup.get(number, 0) for number in unique.tolist()], np.int64)[inverse]


def text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def parse(kind: str, data: bytes) -> Any:
    """Parse a protobuf message of this kind; raise Unreadable if it is invalid."""
    from google.protobuf.message import DecodeError

    try:
        return messages()[kind].FromString(data)
    except DecodeError as error:
        raise Unreadable(f"the file is truncated, or not an xplane.pb of a known version ({kind}: {error})") from error


@cache
def messages() -> dict[str, Any]:
    """Return the protobuf message classes by name."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="accelbench_xplane.proto", package="accelbench")
    for message, fields in FIELDS.items():
        declared = file.message_type.add(name=message)
        for name, (number, kind, repeated) in fields.items():
            field = declared.field.add(name=name, number=number, type=kind, label=3 if repeated else 1)
            if kind == MESSAGE:
                field.type_name = f".accelbench.{NESTED[message, name]}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"accelbench.{name}")) for name in FIELDS}
