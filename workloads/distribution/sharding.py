"""The ways in which the parameters of a model may be shared out, for a model that fits no single device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from accelbench.profiling.benchmark import Skip


@dataclass(frozen=True)
class Sharding:
    """What a workload says of its model before it builds it."""

    along: Mapping[str, int]
    """The axis along which each device has a part of a variable, by a pattern of the variable's path; variables that no
    pattern finds are whole on every device."""
    parts: Mapping[str, int]
    """What must be shared out evenly along these axes, and how many there are of it."""
    block: str
    """A pattern of the names of the layers that the model is a row of: parameters are gathered for one at a time."""

    def require(self, devices: int) -> None:
        """Skip where the devices cannot share the model out evenly."""
        for what, count in self.parts.items():
            if count % devices:
                raise Skip(f"{count} {what} cannot be shared out evenly to {devices} devices")
