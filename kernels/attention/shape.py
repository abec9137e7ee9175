"""Sizes, operations and bytes of an attention."""

from __future__ import annotations

from dataclasses import dataclass

from accelbench.profiling.records.point import Point
from accelbench.profiling.records.work import Work

MASKS = ("causal", "full")
"""The keys that a query sees: those up to its own place, or all."""


@dataclass(frozen=True)
class Attention:
    """Q, K, V and O, each (heads, sequence, head) and contiguous; every head is an attention of its own."""

    heads: int
    sequence: int
    head: int
    causal: bool = True

    @classmethod
    def of(cls, point: Point) -> Attention:
        """Return the attention that a point asks for."""
        return cls(int(point["heads"]), int(point["sequence"]), int(point["head"]), point["mask"] == "causal")

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of Q, K, V and O."""
        return self.heads, self.sequence, self.head

    @property
    def flops(self) -> int:
        """Two products of 2·n²·d operations for each head, half of which a causal mask leaves: 4·n²·d·heads / 2.

        That is the usual count (Dao et al., FlashAttention-2, 2023, section 4.1): what is computed above the diagonal,
        the diagonal's own half and the softmax are not in it.
        """
        return 4 * self.sequence**2 * self.head * self.heads // (2 if self.causal else 1)

    def heads_within(self, scores: int) -> int:
        """Return how many heads have at most so many scores together; a single one may have more."""
        return min(self.heads, max(1, scores // self.sequence**2))

    def work(self, itemsize: int) -> Work:
        """Return the operations, and the bytes of Q, K and V read once and of O written once."""
        return Work(flops=self.flops, bytes=4 * self.heads * self.sequence * self.head * itemsize)
