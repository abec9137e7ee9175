"""Curves and rates of a record as TensorBoard scalars, written without TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from accelbench.profiling.records.record import Record


class ScalarPoint(NamedTuple):
    """One value of a TensorBoard scalar."""

    step: int
    seconds: float
    """Seconds since the record's start."""
    value: float


Series = Mapping[str, Sequence[ScalarPoint]]
"""Points by tag; TensorBoard groups tags by the part before the slash."""
Readings = Mapping[str, Sequence[tuple[float, float]]]
"""Readings by sensor, such as `gpu.power`: seconds since the record's start, and value."""


def record_scalars(record: Record, readings: Readings | None = None) -> dict[str, list[ScalarPoint]]:
    """Return the scalars of a record: curves per epoch, time and rate per step, and sensor readings.

    Without readings, each sensor has three points: minimum, median and maximum.
    """
    series: dict[str, list[ScalarPoint]] = {}
    ends = running(record.curves.get("epoch_s", []), record.phases.prepare_s)
    for name, values in record.curves.items():
        times = ends if len(ends) == len(values) else [record.phases.prepare_s] * len(values)
        series[f"epoch/{name}"] = [
            ScalarPoint(n, t, v) for n, (t, v) in enumerate(zip(times, values, strict=True), start=1)
        ]
    if record.timing and record.timing.timer == "steps":
        samples = record.timing.samples
        times = running(samples, record.phases.prepare_s + record.phases.first_call_s + record.phases.warmup_s)
        series["step/time_s"] = [ScalarPoint(n, t, s) for n, (t, s) in enumerate(zip(times, samples, strict=True))]
        if record.work and record.work.items:
            items = record.work.items
            series[f"step/{record.work.item}_per_s"] = [
                ScalarPoint(n, t, items / s) for n, t, s in series["step/time_s"] if s
            ]
    for name, found in (readings or {}).items():
        series[f"telemetry/{name}"] = [ScalarPoint(n, seconds, value) for n, (seconds, value) in enumerate(found)]
    if record.telemetry and not readings:
        for name, gauge in record.telemetry.gauges.items():
            three = (gauge.minimum, gauge.median, gauge.maximum)
            series[f"telemetry/{name}"] = [ScalarPoint(n, record.elapsed_s, value) for n, value in enumerate(three)]
    return series


def running(seconds: Sequence[float], begin: float) -> list[float]:
    """Return the end times of consecutive intervals with these lengths, starting at `begin`."""
    ends = []
    for length in seconds:
        begin += length
        ends.append(begin)
    return ends


def write_scalars(folder: Path, series: Series, started: float) -> Path:
    """Write an events file to the folder and return its path; `started` is in seconds since 1970.

    Raises OSError if the folder cannot be written.
    """
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    folder.mkdir(parents=True, exist_ok=True)
    # TensorBoard requires `tfevents` in the name.
    path = folder / f"events.out.tfevents.{int(started)}.accelbench"
    with path.open("wb") as file:
        writer = RecordWriter(file)
        writer.write(Event(wall_time=started, file_version="brain.Event:2").SerializeToString())
        for tag, points in series.items():
            for step, seconds, value in points:
                summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
                event = Event(wall_time=started + seconds, step=step, summary=summary)
                writer.write(event.SerializeToString())
    return path
