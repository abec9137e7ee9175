"""Sharding rules for the parameters of a model that does not fit on one device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from accelbench.profiling.benchmark import Skip


@dataclass(frozen=True)
class Sharding:
    """Sharding rules that a workload declares before it builds its model."""

    along: Mapping[str, int]
    """Sharded axis of each variable, by a regular expression for its path; other variables are replicated."""
    parts: Mapping[str, int]
    """Counts along the sharded axes, which the number of devices must divide, by name."""
    block: str
    """Regular expression for the names of the repeated layers; parameters are gathered one layer at a time."""

    def require(self, devices: int) -> None:
        """Skip if the counts are not divisible by the number of devices."""
        for what, count in self.parts.items():
            if count % devices:
                raise Skip(f"{count} {what} are not divisible by {devices} devices")
