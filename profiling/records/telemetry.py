"""Records of the machine's state during a measurement: sensors, counters, CPU placement."""

from __future__ import annotations

from accelbench.profiling.records.stored import Finite, Seconds, Stored

Reading = tuple[str, float, str]
"""The name of a sensor, its value, and the unit of the value."""


POWER_LIMIT = "power limit"
"""The throttle reason of a GPU at its power limit, at which its clock settles below the highest one."""


class Gauge(Stored):
    """Readings of one sensor during the measurement of a point."""

    minimum: Finite
    """The smallest reading, in `unit`."""
    median: Finite
    """The median reading, in `unit`."""
    maximum: Finite
    """The largest reading, in `unit`."""
    unit: str
    """The unit of the readings."""


class Telemetry(Stored):
    """State of the machine during the measurement; `gauges` lacks sensors that cannot be read."""

    interval_s: Seconds
    """The sampling interval of the sensors, in seconds."""
    gauges: dict[str, Gauge]
    """The sensors by name: `gpu.sm_clock`, `gpu.power`, `gpu.temperature`, `cpu.load.0`, `process.rss`, …

    With several GPUs, one sensor for each, in CUDA's order: `gpu.power.0`, `gpu.power.1`.
    """
    counters: dict[str, Finite]
    """The counter differences over the measurement; the name has the unit: `cpu.steal_s`, `gpu.energy_j`, …"""
    throttle_reasons: list[str] = []
    """The reasons for which a GPU's clock was throttled at any time."""
    missing: list[str] = []
    """The sensors and counters that could not be read, each with the reason."""


class Placement(Stored):
    """Logical CPUs of the measuring thread; CPUs of one machine may differ in speed."""

    first: int | None = None
    """The thread's CPU at the start of the measurement; null where the system does not report it."""
    last: int | None = None
    """The thread's CPU at the end of the measurement; null where the system does not report it."""
    allowed: list[int] | None = None
    """The CPU affinity of the thread; null where the system does not report it."""
    pinned: bool = False
    """Whether the thread was pinned to one CPU, as in points that use one core."""
    core_kind: str | None = None
    """The kind of core of a point of one core; null for other points, and for a CPU with cores of one kind."""
    left_out: list[int] = []
    """The CPUs available to the run, but excluded for this point."""
    left_out_because: str | None = None
    """The reason for excluding them; null if none was excluded."""
