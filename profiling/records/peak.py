"""The vendor's figure that bounds a point."""

from __future__ import annotations

from accelbench.profiling.records.stored import Stored


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

    def at_clock(self, observed_mhz: float) -> float | None:
        """Return the peak scaled from the clock it is stated at to the observed one; None where either is unknown."""
        if self.value is None or self.clock_mhz is None or self.unit_kind == "memory":
            return None
        return self.value * observed_mhz / self.clock_mhz
