"""Size of a message on each rank, and the share of it that a link carries."""

from __future__ import annotations

from dataclasses import dataclass

ITEMSIZE = 4
"""Bytes of a float32."""
PARTED = ("all-gather", "reduce-scatter")
"""The operations that have as many parts as ranks."""


@dataclass(frozen=True)
class Message:
    """The number of elements that one rank gives (`source`), and of those that it ends up with (`target`)."""

    source: int
    target: int

    @property
    def bytes(self) -> int:
        """The size that bandwidth is counted by: that of the larger one, the whole."""
        return ITEMSIZE * max(self.source, self.target)


def message(op: str, size: int, ranks: int) -> Message:
    """Return the message of at least `size` bytes, with an equal part for each rank: up to one element more in each."""
    parts = ranks if op in PARTED else 1
    part = -(-size // (ITEMSIZE * parts))
    whole = part * parts
    return Message(source=part if op == "all-gather" else whole, target=part if op == "reduce-scatter" else whole)


def bus_factor(op: str, ranks: int) -> float:
    """Return bus bandwidth ÷ algorithm bandwidth: what must pass each rank's link, one way, as a share of the message.

    Of n ranks each holds a whole message S. To reduce it everywhere, n−1 of n parts of S must leave every rank, and
    n−1 of n come back: 2(n−1)/n · S. To gather or to reduce and scatter is one of these ways. A broadcast and a send
    carry S. Source: NVIDIA nccl-tests, `doc/PERFORMANCE.md`.
    """
    if op == "all-reduce":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if op in PARTED else 1.0
