"""Link between host and device: PCI Express generation and lanes.

Source: PCI Express Base Specification 6.0, "Physical Layer": transfers per second and encoding by generation.
"""

from __future__ import annotations

from typing import NamedTuple

LINK_SHARE = "share of the best PCIe link"
"""Metric: bandwidth of the link in use as a share of the best link that device and slot support, in percent."""
WHOLE_LINK = 99.0
"""Percent of the best PCIe link from which a link counts as the best one."""
BYTES_PER_S = {
    1: 2.5e9 * 8 / 10 / 8,
    2: 5e9 * 8 / 10 / 8,
    3: 8e9 * 128 / 130 / 8,
    4: 16e9 * 128 / 130 / 8,
    5: 32e9 * 128 / 130 / 8,
    6: 64e9 * 242 / 256 / 8,
}
"""Bandwidth of a lane per direction by generation, before the packets' overhead."""


class PcieLink(NamedTuple):
    """Link of a device."""

    generation: int
    lanes: int

    @property
    def bandwidth(self) -> float | None:
        """Return the bytes per second per direction; None for an unknown generation."""
        lane = BYTES_PER_S.get(self.generation)
        return None if lane is None else lane * self.lanes
