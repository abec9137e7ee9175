"""Work of one execution, its reported metric, and the resource that bounds the metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Literal

MainMetric = Literal["flops", "bytes", "items", "time"]
Bounded = Literal["flops", "bytes"]
"""The metrics that hardware bounds: the rates of arithmetic and of memory traffic."""
Resource = Literal["arithmetic", "memory"]
Cores = Literal["one", "all"]
BOUNDED_METRIC: Mapping[Resource, Bounded] = {"arithmetic": "flops", "memory": "bytes"}
"""The metric that each resource bounds."""
UNITS: Mapping[str, str] = {"flops": "FLOP/s", "bytes": "B/s", "time": "s"}
"""The unit of each metric; the unit of an item rate contains the item's name: images/s."""

SHARED_CORES = "several processes share the CPU cores of their hosts in an unknown way"
"""The reason why a rate of several processes on CPUs has no bound."""


@dataclass(frozen=True)
class Work:
    """Work of one execution, derived from the algorithm."""

    flops: float | None = None
    """The number of floating-point operations (integer operations of integer arithmetic); null if not counted."""
    bytes: float | None = None
    """The bytes transferred to and from memory, or between processes; null if not counted."""
    items: float | None = None
    """The number of processed items; null if not counted."""
    item: str = "items"
    """The plural name of the items: images, nodes, launches."""
    unit_kind: Literal["plain", "tensor"] | None = None
    """The hardware unit of the arithmetic, whose peak is the bound; null for the dtype's fastest unit."""
    all_reduced: float | None = None
    """The bytes per process of an all-reduce by an engine that also trains models."""

    def __post_init__(self) -> None:
        for name in ("flops", "bytes", "items", "all_reduced"):
            amount = getattr(self, name)
            if amount is not None and not 0 <= amount < inf:
                raise ValueError(f"Work({name}={amount}): must be a finite number of at least 0")

    def amount(self, metric: MainMetric) -> float | None:
        """Return the flops, bytes or items of one execution; 1 for `time`."""
        return {"flops": self.flops, "bytes": self.bytes, "items": self.items, "time": 1.0}[metric]


@dataclass(frozen=True)
class Bound:
    """Resource of the device that bounds a rate."""

    resource: Resource | None = None
    """The resource that bounds the rate; null if no known resource does."""
    reason: str | None = None
    """The reason why no known resource bounds the rate."""
    dtype: str | None = None
    """The dtype of the arithmetic; null if arithmetic is not the bound."""
    cores: Cores = "all"
    """Whether one core is used or the whole device."""

    @property
    def metric(self) -> Bounded | None:
        """Return the metric that the resource bounds; None without such a resource."""
        return BOUNDED_METRIC[self.resource] if self.resource else None
