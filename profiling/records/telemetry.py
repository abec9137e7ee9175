"""Records of the machine's state during a measurement: sensors, counters, CPU placement."""

from __future__ import annotations

from accelbench.profiling.records.stored import Finite, Seconds, Stored

Reading = tuple[str, float, str]
"""A sensor's name, the value that it shows, and the unit of that value."""


class Gauge(Stored):
    """The readings of one sensor while the point was measured."""

    minimum: Finite
    """The smallest reading, in `unit`."""
    median: Finite
    """The median reading, in `unit`."""
    maximum: Finite
    """The largest reading, in `unit`."""
    unit: str
    """The unit of the readings."""


class Telemetry(Stored):
    """The machine's state during the measurement; a sensor that cannot be read is absent from `gauges`."""

    interval_s: Seconds
    """The time between two readings of the sensors, in seconds."""
    gauges: dict[str, Gauge]
    """The sensors by name: `gpu.sm_clock`, `gpu.power`, `gpu.temperature`, `cpu.load.0`, `process.rss`, …

    Of several GPUs each has its own: `gpu.power.0`, `gpu.power.1`, in CUDA's order.
    """
    counters: dict[str, Finite]
    """The counts over the measurement, in the unit of their names: `cpu.steal_s`, `gpu.energy_j`, `wall_s`, …"""
    throttle_reasons: list[str] = []
    """The reasons that held a card's clock down at some moment."""
    missing: list[str] = []
    """The names of what could not be read, with the reasons."""


class Placement(Stored):
    """The logical CPUs of the thread that measured a point: two of one machine may differ in speed."""

    first: int | None = None
    """The number of the CPU that the thread was on when measuring began; null where the system does not tell."""
    last: int | None = None
    """The number of the CPU that the thread was on when measuring ended; null where the system does not tell."""
    allowed: list[int] | None = None
    """The numbers of the CPUs that the thread could be on meanwhile; null where the system does not tell."""
    pinned: bool = False
    """Whether the thread was kept to one CPU, as the threads of points that work on one core are."""
    left_out: list[int] = []
    """The numbers of the CPUs that the run may use and this point was kept from."""
    left_out_because: str | None = None
    """Why they were left out; null where none was."""
