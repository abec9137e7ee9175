"""Reader of `*.xplane.pb` traces: line by line, without TensorFlow, in bounded memory.

The format is the protocol buffer `XSpace` (openxla/xla, xla/tsl/profiler/protobuf/xplane.proto): planes (a host, a
device) hold lines (a thread, a stream), lines hold events. Only the fields needed are declared here; protobuf carries
the others along. Planes, lines and metadata are declared as the bytes they are on disk, so that one line at a time is
taken apart, and never the whole file.
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
"""The name of the plane that is written last, when the profiler has stopped."""

SUFFIX = ".xplane.pb"
"""The end of the name of a trace's file, which the profilers put the host's name before."""

INT, MESSAGE, BYTES = 3, 11, 12  # FieldDescriptorProto.Type; names are bytes, too: not all of them are valid UTF-8
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
"""The fields of each message: number, type, whether repeated."""
NESTED = {("XLine", "events"): "XEvent", ("XEventMetadataEntry", "value"): "XEventMetadata"}


@dataclass(frozen=True)
class XplaneLine:
    """The events of one thread or stream, in the order written."""

    plane: str
    name: str
    names: list[str]
    """The names of what can happen on this plane."""
    kinds: Integers
    """The place in `names` of each event's name."""
    message: Any
    base_ns: int
    """The moment, in nanoseconds, that every line counts its start from."""

    def span(self, chosen: NDArray[np.bool_]) -> tuple[Integers, Integers]:
        """Return when each of the chosen events began and ended, in picoseconds on the clock that all lines share."""
        events, wanted, count = self.message.events, chosen.tolist(), int(np.count_nonzero(chosen))
        start = (self.message.timestamp_ns - self.base_ns) * 1000
        begins = np.fromiter((event.offset_ps for event in compress(events, wanted)), np.int64, count) + start
        return begins, begins + np.fromiter((event.duration_ps for event in compress(events, wanted)), np.int64, count)


class XplaneTrace:
    """One `*.xplane.pb`, whose lines are taken apart when they are asked for."""

    memory_peak_bytes: int | None = None
    """Unknown: xprof reads the allocations."""

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
        """The profiler's own complaints, CUPTI's refusals among them."""
        self._planes = [parse("XPlane", plane) for plane in self._space.planes]
        self._planes.sort(key=lambda plane: not plane.name.startswith(b"/device:"))
        del self._space.planes[:]
        self._base_ns = 0
        self.planes = [text(plane.name) for plane in self._planes]
        if CLOSING_PLANE not in self.planes:
            raise Unreadable(f"{path.name} has no plane {CLOSING_PLANE!r}: cut short, or from another profiler version")

    def lines(self) -> Iterator[XplaneLine]:
        """Yield every line of every plane, the devices' first, one in memory at a time."""
        for plane in self._planes:
            lookup, names = metadata(plane)
            for message in map(self._line, plane.lines):
                ids = np.fromiter((event.metadata_id for event in message.events), np.int64, len(message.events))
                name = text(message.display_name or message.name)
                yield XplaneLine(text(plane.name), name, names, kinds_of(ids, lookup), message, self._base_ns)

    def cut(self, until_ps: int, path: Path) -> None:
        """Write the same trace without the events that begin later than that."""
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
        """Parse one line; the start of the first that is read is what all lines' times are counted from."""
        message = parse("XLine", raw)
        self._base_ns = self._base_ns or message.timestamp_ns
        return message


def forget_host(file: Path) -> Path:
    """Take the host's name out of a trace, and out of the names of all that the profiler wrote for it.

    Returns the trace's new file, `localhost.xplane.pb`. Raises `OSError`, or `Unreadable` for a file that is no trace.
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
    """Return the names, and the place of each kind of event in them; 0 is that of kinds that are not declared."""
    lookup, names = {}, [""]
    for raw in plane.event_metadata:
        entry = parse("XEventMetadataEntry", raw)
        lookup[entry.key] = len(names)
        names.append(text(entry.value.name or entry.value.display_name))
    return lookup, names


def kinds_of(ids: Integers, lookup: dict[int, int]) -> Integers:
    """Return each event's place in the list of names, from the number that it is stored with."""
    unique, inverse = np.unique(ids, return_inverse=True)
    return np.asarray([lookup.get(number, 0) for number in unique.tolist()], np.int64)[inverse]


def text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def parse(kind: str, data: bytes) -> Any:
    """Parse a message of that kind; Unreadable if the bytes are none."""
    from google.protobuf.message import DecodeError

    try:
        return messages()[kind].FromString(data)
    except DecodeError as error:
        raise Unreadable(f"the file is cut short, or no xplane.pb of a known version ({kind}: {error})") from error


@cache
def messages() -> dict[str, Any]:
    """Return the message classes, by name."""
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
