"""How large a message is on each rank, and what share of it a link carries: pure functions."""

from __future__ import annotations

from dataclasses import dataclass

ITEMSIZE = 4
"""Bytes of a float32."""
PARTED = ("all-gather", "reduce-scatter")
"""The operations that have as many parts as ranks."""


@dataclass(frozen=True)
class Message:
    """What one rank gives and what it ends up with, in elements."""

    source: int
    target: int

    @property
    def bytes(self) -> int:
        """The size that bandwidth is counted by: that of the larger one, the whole."""
        return ITEMSIZE * max(self.source, self.target)


def message(op: str, size: int, ranks: int) -> Message:
    """That of at least `size` bytes, of which every rank has an equal part: up to one element more in each part."""
    parts = ranks if op in PARTED else 1
    part = -(-size // (ITEMSIZE * parts))
    whole = part * parts
    return Message(source=part if op == "all-gather" else whole, target=part if op == "reduce-scatter" else whole)


def bus_factor(op: str, ranks: int) -> float:
    """Bus bandwidth ÷ algorithm bandwidth: what must pass each rank's link, one way, as a share of the message.

    Of n ranks each holds a whole message S. To reduce it everywhere, n−1 of n parts of S must leave every rank, and
    n−1 of n come back: 2(n−1)/n · S. To gather or to reduce and scatter is one of these ways. A broadcast and a send
    carry S. Source: NVIDIA nccl-tests, `doc/PERFORMANCE.md`.
    """
    if op == "all-reduce":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if op in PARTED else 1.0
