"""What one execution must do, and which figure of it is reported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Figure = Literal["flops", "bytes", "items", "time"]


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
    devices: int | None = None
    """How many devices of this process did it together; None where it is for the point's axes to say."""
