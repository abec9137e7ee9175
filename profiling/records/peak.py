"""The vendor's figure that bounds a point."""

from __future__ import annotations

from profiling.records.stored import Stored


class Peak(Stored):
    """A vendor's figure for (device, dtype), or null with the reason."""

    value: float | None
    """FLOP/s for flops, byte/s for bytes, dense."""
    reason: str | None = None
    unit_kind: str | None = None
    """The unit that reaches it: `tensor`, `plain`, `memory`."""
    clock_mhz: float | None = None
    """The clock at which the vendor states it."""
    source: str | None = None
