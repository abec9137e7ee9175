"""Energy of an execution and work per joule, from the energy counters of GPUs (NVML) and CPU packages (RAPL).

The counters are of whole devices over the whole measurement: idle power and other processes are included.
"""

from __future__ import annotations

from typing import NamedTuple

from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import MainMetric

LEAST_S = 0.3
"""Shortest measurement with a known mean power: GPUs update their counter about ten times per second."""


class Amount(NamedTuple):
    """Amount with the ends of its interval; all three are equal without an interval, and for a bound."""

    value: float
    low: float
    high: float


def mean_power(record: Record) -> float | None:
    """Return the mean power in watts of the device (all CPU packages, or the GPUs of the point) while it was measured.

    None without an energy counter, for a short measurement, and for a point of several processes, since the telemetry
    of the record is of a single one.
    """
    telemetry = record.telemetry
    if telemetry is None or record.layout.processes > 1:
        return None
    energy_j = telemetry.counters.get(f"{record.point.device}.energy_j")
    wall_s = telemetry.counters.get("wall_s", 0.0)
    return energy_j / wall_s if energy_j and wall_s >= LEAST_S * (len(record.rounds) or 1) else None


def energy_of_execution(record: Record) -> Amount | None:
    """Return the joules of one execution, or training step, with the ends of the interval; None if unknown.

    The energy of an execution is the mean power times its time, with the interval of the time. The energy of a training
    step is its share of the energy of the training run on all ranks, and has no interval.
    """
    if "energy_per_step" in record.metrics:
        joules = record.metrics["energy_per_step"].value
        return Amount(joules, joules, joules)
    power, timing = mean_power(record), record.timing
    if power is None or timing is None or timing.timer == "steps":
        return None
    execution = timing.execution
    ends = [execution.seconds] * 3 if timing.upper_bound else execution[:3]
    return Amount(*(power * seconds for seconds in ends))


def work_metric(record: Record) -> MainMetric:
    """Return the metric of the work per joule: the main metric, or the items of a point with a time."""
    return "items" if record.figure == "time" else record.figure


def work_per_joule(record: Record) -> Amount | None:
    """Return the flops, bytes or items per joule (FLOP/s per watt) with the ends of the interval; None if unknown."""
    amount = record.work and record.work.amount(work_metric(record))
    found = energy_of_execution(record)
    if not amount or found is None or not all(found):
        return None
    return Amount(amount / found.value, amount / found.high, amount / found.low)
