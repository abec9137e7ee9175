"""Work of one execution, its reported metric, and the resource that bounds that metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Literal

Figure = Literal["flops", "bytes", "items", "time"]
Bounded = Literal["flops", "bytes"]
"""The figures that hardware bounds: the rates of arithmetic and of memory traffic."""
Resource = Literal["arithmetic", "memory"]
Cores = Literal["one", "all"]
FIGURE: Mapping[Resource, Bounded] = {"arithmetic": "flops", "memory": "bytes"}
"""The figure that each resource bounds."""
UNITS: Mapping[str, str] = {"flops": "FLOP/s", "bytes": "B/s", "time": "s"}
"""The unit of each figure's rate; a rate of items has their own name in it: images/s."""

SHARED_CORES = "the processes of a point share the cores of their hosts in ways that are not known"
"""The reason why nothing bounds the sum of several processes on CPUs."""


@dataclass(frozen=True)
class Work:
    """The work that one execution must do; each number is derived beside the code that does it."""

    flops: float | None = None
    """The floating-point operations, or the integer operations of integer arithmetic; null where none are counted."""
    bytes: float | None = None
    """The bytes that must move to and from memory, or between processes; null where none are counted."""
    items: float | None = None
    """The number of items that are worked on; null where none are counted."""
    item: str = "items"
    """The plural name of one item: images, nodes, launches."""
    unit_kind: Literal["plain", "tensor"] | None = None
    """The hardware unit that the arithmetic is confined to, whose peak bounds it; None: the best one for the dtype."""
    all_reduced: float | None = None
    """The bytes of each process that were added up over all processes, by an engine that also trains models."""

    def __post_init__(self) -> None:
        for name in ("flops", "bytes", "items", "all_reduced"):
            amount = getattr(self, name)
            if amount is not None and not 0 <= amount < inf:
                raise ValueError(f"Work({name}={amount}): must be a finite number of at least 0")

    def amount(self, figure: Figure) -> float | None:
        """Return the flops, bytes or items of one execution; 1 for a figure of time."""
        return {"flops": self.flops, "bytes": self.bytes, "items": self.items, "time": 1.0}[figure]


@dataclass(frozen=True)
class Bound:
    """The resource of the device that bounds a rate, so that the rate is a share of it."""

    resource: Resource | None = None
    """The resource that bounds the rate; null where nothing known does."""
    reason: str | None = None
    """The reason why nothing known bounds the rate."""
    dtype: str | None = None
    """The type that the arithmetic is done in; null where no arithmetic is the bound."""
    cores: Cores = "all"
    """Whether one core works or the whole device."""

    @property
    def figure(self) -> Bounded | None:
        """Return the figure that the resource bounds; None where none does."""
        return FIGURE[self.resource] if self.resource else None
