"""What the sensors read while each point was measured, as a table per device with the sensors that were readable."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from accelbench.format import plain, read, size
from accelbench.report.rows import Row
from profiling.records.telemetry import Gauge, Telemetry

_ONE_OF_MANY = re.compile(r"\.\d+$")
_UNIT = re.compile(r"_[sj](?=\.|$)")


@dataclass(frozen=True)
class Table:
    device: str
    columns: tuple[str, ...]
    lines: tuple[tuple[Row, tuple[str | None, ...]], ...]
    """A row and its cells; None where the sensor was not readable."""
    zero: tuple[str, ...]
    """Counters that counted nothing at any point, and so have no column."""


def tables(rows: Sequence[Row]) -> list[Table]:
    """One table per device; devices without any telemetry have none."""
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
    """`cpu.steal_s` as words; the unit stands in the cells."""
    return plain(_UNIT.sub("", name)).replace(".", " ").replace("_", " ")


def _counted_nothing(telemetry: Telemetry | None, name: str) -> bool:
    return telemetry is not None and telemetry.counters.get(name) == 0


def summarize_gauges(telemetry: Telemetry | None) -> dict[str, Gauge]:
    """The gauges, with those of one kind (`cpu.load.0`, `cpu.load.1`, …) taken together as their mean."""
    kinds: dict[str, list[Gauge]] = {}
    for name, gauge in telemetry.gauges.items() if telemetry else ():
        kinds.setdefault(_ONE_OF_MANY.sub("", name), []).append(gauge)
    return {kind: _together(gauges) for kind, gauges in kinds.items()}


def _together(gauges: Sequence[Gauge]) -> Gauge:
    """Lowest minimum, mean of the medians, highest maximum."""
    return Gauge(
        minimum=min(gauge.minimum for gauge in gauges),
        median=fmean(gauge.median for gauge in gauges),
        maximum=max(gauge.maximum for gauge in gauges),
        unit=gauges[0].unit,
    )


def _cells(telemetry: Telemetry | None) -> dict[str, str]:
    cells = {name: _gauge(gauge) for name, gauge in summarize_gauges(telemetry).items()}
    if telemetry is not None:
        cells |= {name: _counter(name, value) for name, value in telemetry.counters.items()}
        if telemetry.throttle_reasons:
            cells["throttled by"] = plain(", ".join(telemetry.throttle_reasons))
        if telemetry.missing:
            cells["unread"] = plain("; ".join(telemetry.missing))
    return cells


def _gauge(gauge: Gauge) -> str:
    low, middle, high = (_with_unit(value, gauge.unit) for value in (gauge.minimum, gauge.median, gauge.maximum))
    return middle if low == high else f"{middle} ({_bare(low, middle)}–{_bare(high, middle)})"


def _with_unit(value: float, unit: str) -> str:
    if unit == "B":
        return size(value)
    number = f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"
    return f"{number} {plain(unit)}".strip()


def _bare(text: str, like: str) -> str:
    """The text without its unit, where that is the other's too."""
    number, _, unit = text.partition(" ")
    return number if like.endswith(f" {unit}") else text


def _counter(name: str, value: float) -> str:
    unit = _UNIT.search(name)
    if unit is not None:
        reading = read(value, {"_s": "s", "_j": "J"}[unit[0]])
        return f"{reading.value} {reading.unit}"
    return size(value) if name.endswith("_bytes") else f"{value:,.0f}"
