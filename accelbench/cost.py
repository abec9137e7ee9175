"""The cost of a point: the seconds that one unit of its work takes, which is what runs are compared by."""

from __future__ import annotations

from math import inf, isfinite

from profiling.records.record import Record
from profiling.records.work import Figure


def cost(record: Record, figure: Figure | None = None) -> float | None:
    """Return the seconds per flop, byte or item of a measured record; of a time, the seconds per item or execution.

    None for a record that was not measured or does not know its work, and where a sample is no duration.
    """
    found = record.rate(figure) if execution_seconds(record) else None
    if not found or not isfinite(found):
        return None
    return found if (figure or record.figure) == "time" else 1 / found


def execution_seconds(record: Record) -> float | None:
    """Return the seconds of one execution; None where there is no sample, or one that is no duration."""
    if record.timing is None or not record.timing.samples or not all(0 < s < inf for s in record.timing.samples):
        return None
    return record.timing.execution.seconds


def costs_of_rounds(record: Record, whole: float) -> list[float]:
    """Return the cost of each round of a record that costs so much as a whole; none where it has one round only."""
    timing = record.timing
    if timing is None or not record.rounds:
        return []
    # The blocks of a training in rounds are its rounds.
    seconds = timing.costs if timing.steady else [part.summary.median for part in record.rounds]
    return [whole * each / timing.execution.seconds for each in seconds]
