"""Traces made by hand: events where a test wants them, of devices that are not here, and of any size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from profiling.trace.xplane import CLOSING_PLANE, messages

Planes = Mapping[str, Mapping[str, Sequence[tuple[str, float, float]]]]
"""Plane, line, and of each event its name, begin and end in microseconds."""


def write_trace(folder: Path, planes: Planes, errors: Sequence[str] = (), session: str = "2026_03_14_09_26_53") -> Path:
    """Write the trace where a profiler would."""
    kinds = messages()
    space = kinds["XSpace"](errors=[error.encode() for error in errors])
    for plane_name, lines in {**planes, CLOSING_PLANE: {}}.items():
        plane = kinds["XPlane"](name=plane_name.encode())
        names = sorted({name for events in lines.values() for name, _, _ in events})
        for number, name in enumerate(names, start=1):
            value = kinds["XEventMetadata"](name=name.encode())
            plane.event_metadata.append(kinds["XEventMetadataEntry"](key=number, value=value).SerializeToString())
        for line_name, events in lines.items():
            line = kinds["XLine"](name=line_name.encode(), timestamp_ns=7000)
            for name, begin, end in events:
                line.events.add(
                    metadata_id=1 + names.index(name),
                    offset_ps=round(begin * 1e6),
                    duration_ps=round((end - begin) * 1e6),
                )
            plane.lines.append(line.SerializeToString())
        space.planes.append(plane.SerializeToString())
    path = folder / "plugins" / "profile" / session / "host.xplane.pb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(space.SerializeToString())
    return path


def replicate(source: Path, path: Path, size: int) -> int:
    """Write the trace again and again, one copy after the other in time, until the file is as large; how often."""
    kinds = messages()
    space = kinds["XSpace"].FromString(source.read_bytes())
    planes = [kinds["XPlane"].FromString(raw) for raw in space.planes]
    lines = [[kinds["XLine"].FromString(raw) for raw in plane.lines] for plane in planes]
    length = max(e.offset_ps + e.duration_ps for of_plane in lines for line in of_plane for e in line.events) + 10**6
    times = 1 + size // source.stat().st_size
    for plane, of_plane in zip(planes, lines, strict=True):
        del plane.lines[:]
        for line in of_plane:
            once = kinds["XLine"](events=line.events)
            parts = [line.SerializeToString()]
            for _ in range(1, times):
                for event in once.events:
                    event.offset_ps += length
                # Messages written one after the other are one message, whose repeated fields are joined.
                parts.append(once.SerializeToString())
            plane.lines.append(b"".join(parts))
    del space.planes[:]
    space.planes.extend(plane.SerializeToString() for plane in planes)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(space.SerializeToString())
    return times
