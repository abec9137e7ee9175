"""Files by which the gate and its measuring process communicate, in the temporary folder of the gate."""

from __future__ import annotations

from accelbench.gate.answer import GateResource
from accelbench.gate.reading import HealthReading
from accelbench.profiling.records.stored import Positive, Seconds, Stored
from accelbench.profiling.records.work import MainMetric


class GateRequest(Stored):
    """Request of the gate to its measuring process."""

    suite: str
    """Path of the suite file."""
    only: list[GateResource] = []
    """Resources to check; empty for all."""
    limit_s: Seconds
    include_noisy: bool = False
    history: str | None = None
    """Absolute path of the folder of stored runs; None to read none."""


class MeasurementProblem(Stored):
    """Reason for which a resource is not measured, or another single text."""

    resource: GateResource | None = None
    reason: str


class Readings(Stored):
    """Health readings, or problems."""

    readings: list[HealthReading] = []
    problems: list[MeasurementProblem] = []


class PlannedResources(Stored):
    """Resource of each planned point of a device."""

    resources: dict[str, GateResource]


class PastMetric(Stored):
    """Median and spread of a point in the stored runs of the same hardware."""

    point: str
    figure: MainMetric
    unit: str
    median: Positive
    deviation: Seconds
    """Standard deviation between runs, relative to the median."""
    runs: int


class PastMetrics(Stored):
    """Metrics of the stored runs of this machine."""

    metrics: list[PastMetric] = []
