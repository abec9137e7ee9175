"""The vendor's figure that bounds a point."""

from __future__ import annotations

from profiling.records.stored import Stored


class Peak(Stored):
    """A vendor's figure for (device, dtype), or null with the reason."""

    value: float | None
    """The dense peak, in FLOP/s of arithmetic or in byte/s of memory; null where it is unknown."""
    reason: str | None = None
    """The reason why the peak is unknown."""
    unit_kind: str | None = None
    """The hardware unit that reaches the peak: `tensor`, `plain` or `memory`."""
    clock_mhz: float | None = None
    """The clock at which the vendor states the peak, in MHz."""
    source: str | None = None
    """The vendor's document that states the peak."""
