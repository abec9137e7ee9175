"""What one execution must do, which figure of it is reported, and what of the hardware bounds that figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Figure = Literal["flops", "bytes", "items", "time"]
Resource = Literal["arithmetic", "memory"]
Cores = Literal["one", "all"]
FIGURE: Mapping[Resource, Literal["flops", "bytes"]] = {"arithmetic": "flops", "memory": "bytes"}
"""The figure that each resource bounds."""
UNITS: Mapping[str, str] = {"flops": "FLOP/s", "bytes": "B/s", "time": "s"}
"""The unit of each figure's rate; that of items is in their own name: images/s."""

SHARED_CORES = "the processes of a point share the cores of their hosts in ways that are not known"
"""Why nothing bounds the sum of several processes on CPUs."""


@dataclass(frozen=True)
class Work:
    """What one execution must do; each number is derived beside the code that does it."""

    flops: float | None = None
    bytes: float | None = None
    items: float | None = None
    item: str = "items"
    """The plural name of one item: images, nodes, launches."""
    unit_kind: Literal["plain", "tensor"] | None = None
    """The hardware unit that the arithmetic is confined to, whose peak bounds it; None: the best one for the dtype."""
    all_reduced: float | None = None
    """The bytes of each process that were added up over all processes, by an engine that trains models, too."""

    def amount(self, figure: Figure) -> float | None:
        """Return the flops, bytes or items of one execution; 1 for a figure of time."""
        return {"flops": self.flops, "bytes": self.bytes, "items": self.items, "time": 1.0}[figure]


@dataclass(frozen=True)
class Bound:
    """What of the device bounds a rate, so that the rate is a share of it."""

    resource: Resource | None = None
    """None where nothing known bounds the rate."""
    reason: str | None = None
    """Why nothing does."""
    dtype: str | None = None
    """The type that the arithmetic is done in; None where no arithmetic is the bound."""
    cores: Cores = "all"
    """Whether one core works or the whole device."""

    @property
    def figure(self) -> Literal["flops", "bytes"] | None:
        """The figure that the resource bounds; None where none does."""
        return FIGURE[self.resource] if self.resource else None
