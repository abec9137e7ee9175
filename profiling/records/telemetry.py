"""The state of the machine while a point was measured."""

from __future__ import annotations

from profiling.records.stored import Stored


class Gauge(Stored):
    """What a sensor read while the point was measured."""

    minimum: float
    median: float
    maximum: float
    unit: str


class Telemetry(Stored):
    """The machine's state during the measurement; a sensor that cannot be read is absent from `gauges`."""

    interval_s: float
    gauges: dict[str, Gauge]
    """`gpu.sm_clock`, `gpu.power`, `gpu.temperature`, `gpu.utilization`, `cpu.load.0`, `process.rss`, …

    Of several GPUs each has its own: `gpu.power.0`, `gpu.power.1`, in CUDA's order.
    """
    counters: dict[str, float]
    """Differences over the measurement: `cpu.steal_s`, `cpu.other_s`, `cgroup.throttled_s`, `gpu.energy_j`, …"""
    throttle_reasons: list[str] = []
    missing: list[str] = []
    """What could not be read, and why."""
