"""Message size on each rank, and the share of the message that a link carries."""

from __future__ import annotations

from dataclasses import dataclass

ITEMSIZE = 4
"""Bytes of a float32."""
PARTED = ("all-gather", "reduce-scatter")
"""Operations with the complete message on one side, and one part of it per rank on the other."""
ALL_TO_ALL = "all-to-all"
"""Operation that sends a part of each rank's message to every rank."""


@dataclass(frozen=True)
class Message:
    """Numbers of elements that one rank contributes (`source`) and receives (`target`)."""

    source: int
    target: int

    @property
    def bytes(self) -> int:
        """Size of the complete message, by which bandwidth is computed: the larger of source and target."""
        return ITEMSIZE * max(self.source, self.target)


def message(op: str, size: int, ranks: int) -> Message:
    """Return the message of at least `size` bytes, rounded up to equal parts of whole elements for all ranks."""
    parts = ranks if op in (*PARTED, ALL_TO_ALL) else 1
    part = -(-size // (ITEMSIZE * parts))
    whole = part * parts
    return Message(source=part if op == "all-gather" else whole, target=part if op == "reduce-scatter" else whole)


def bus_factor(op: str, ranks: int) -> float:
    """Return bus bandwidth ÷ algorithm bandwidth: the traffic per link in one direction, as a share of the message.

    For n ranks and messages of size S: in an all-reduce, (n−1)/n · S must leave every rank and as much must return, so
    the traffic is 2(n−1)/n · S. All-gather, reduce-scatter and all-to-all need half of this; broadcast and send-recv
    carry S.
    Source: NVIDIA nccl-tests, `doc/PERFORMANCE.md`.
    """
    if op == "all-reduce":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if op in (*PARTED, ALL_TO_ALL) else 1.0
