"""Reading of a health counter or setting, and its check by the readings before and after the measurement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from accelbench.gate.answer import GateCheck, GateResource, GateStatus
from accelbench.profiling.records.stored import Finite, Stored


class HealthReading(Stored):
    """State of one counter or setting at one time."""

    name: str
    resource: GateResource
    status: GateStatus = "pass"
    found: str
    advice: str = ""
    counter: Finite | None = None
    """Number of errors so far; a rise during the gate sets the status `on_rise`."""
    on_rise: Literal["warn", "fail"] = "fail"


def judge_health(before: Sequence[HealthReading], after: Sequence[HealthReading]) -> list[GateCheck]:
    """Return the checks of the readings: the latest status, or `on_rise` of a counter that rose."""
    earlier = {reading.name: reading for reading in before}
    later = {reading.name: reading for reading in after}
    found = []
    for name in {**earlier, **later}:
        reading = later.get(name) or earlier[name]
        status, text, first = reading.status, reading.found, earlier.get(name)
        if reading.counter is not None and first is not None and first.counter is not None:
            rise = reading.counter - first.counter
            if rise > 0:
                status = "fail" if "fail" in (status, reading.on_rise) else "warn"
                text = f"rose by {rise:g} during the gate: {text}"
        found.append(
            GateCheck(
                name=name,
                kind="health",
                resource=reading.resource,
                status=status,
                found=text,
                advice=reading.advice,
                decides=status != "unknown",
            )
        )
    return found
