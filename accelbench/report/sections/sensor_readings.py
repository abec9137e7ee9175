"""Section of the telemetry: a table of sensor readings per device."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from accelbench.output.format import read
from accelbench.profiling.records.telemetry import Gauge, Telemetry
from accelbench.profiling.text import format_bytes
from accelbench.report.rows import Row, summarize_gauges
from accelbench.report.section import InPage, Section

FINEST = 1e-6
"""Resolution in seconds of the operating system's counters."""
_UNIT = re.compile(r"_[sj](?=\.|$)")


@dataclass(frozen=True)
class Table:
    """Sensor readings of one device by point."""

    device: str
    columns: tuple[str, ...]
    lines: tuple[tuple[Row, tuple[str | None, ...]], ...]
    """Rows with their cells; None if the sensor was not readable."""
    zero: tuple[str, ...]
    """Counters that are zero at every point, which have no column."""


def tables(rows: Sequence[Row]) -> list[Table]:
    """Return a table for each device with telemetry."""
    found = []
    for device in dict.fromkeys(row.record.point.device for row in rows):
        lines = [(row, _cells(row.record.telemetry)) for row in rows if row.record.point.device == device]
        names = sorted({name for _, cells in lines for name in cells})
        zero = [name for name in names if all(_counted_nothing(row.record.telemetry, name) for row, _ in lines)]
        columns = [name for name in names if name not in zero]
        if names:
            cells = tuple((row, tuple(cells.get(column) for column in columns)) for row, cells in lines)
            found.append(Table(device, tuple(map(_title, columns)), cells, tuple(map(_title, zero))))
    return found


def _title(name: str) -> str:
    """Return the column title: `cpu steal` for `cpu.steal_s`; the unit is in the cells."""
    return _UNIT.sub("", name).replace(".", " ").replace("_", " ")


def _counted_nothing(telemetry: Telemetry | None, name: str) -> bool:
    return telemetry is not None and telemetry.counters.get(name) == 0


def _cells(telemetry: Telemetry | None) -> dict[str, str]:
    cells = {name: _gauge(gauge) for name, gauge in summarize_gauges(telemetry).items()}
    if telemetry is not None:
        cells |= {name: _counter(name, value) for name, value in telemetry.counters.items()}
        if telemetry.throttle_reasons:
            cells["throttled by"] = ", ".join(telemetry.throttle_reasons)
        if telemetry.missing:
            cells["unread"] = "; ".join(telemetry.missing)
    return cells


def _gauge(gauge: Gauge) -> str:
    low, middle, high = (_with_unit(value, gauge.unit) for value in (gauge.minimum, gauge.median, gauge.maximum))
    return middle if low == high else f"{middle} ({_bare(low, middle)}–{_bare(high, middle)})"


def _with_unit(value: float, unit: str) -> str:
    if unit == "B":
        return format_bytes(value)
    number = f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"
    return f"{number} {unit}".strip()


def _bare(text: str, like: str) -> str:
    """Return the text without its unit if `like` has the same unit."""
    number, _, unit = text.partition(" ")
    return number if like.endswith(f" {unit}") else text


def _counter(name: str, value: float) -> str:
    unit = _UNIT.search(name)
    if unit is not None:
        value = 0.0 if unit[0] == "_s" and value < FINEST else value  # rounding error of a difference
        return read(value, {"_s": "s", "_j": "J"}[unit[0]]).quantity
    return format_bytes(value) if name.endswith("_bytes") else f"{value:,.0f}"


section = Section(find=lambda run: tables(run.shown), page=InPage("sensor_readings.html", "telemetry", "Telemetry"))
