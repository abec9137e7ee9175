"""Shape, FLOP and bytes of an attention."""

from __future__ import annotations

from dataclasses import dataclass

from accelbench.profiling.records.point import Point
from accelbench.profiling.records.work import Work

MASKS = ("causal", "full")
"""Masks: a query attends to the keys up to its own position, or to all keys."""


@dataclass(frozen=True)
class Attention:
    """Shape of Q, K, V and O: (heads, sequence, head), contiguous, with independent heads."""

    heads: int
    sequence: int
    head: int
    causal: bool = True

    @classmethod
    def of(cls, point: Point) -> Attention:
        """Return the attention of a point."""
        return cls(int(point["heads"]), int(point["sequence"]), int(point["head"]), point["mask"] == "causal")

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of Q, K, V and O."""
        return self.heads, self.sequence, self.head

    @property
    def flops(self) -> int:
        """FLOP of the two products: 4·n²·d·heads, half of that with a causal mask.

        This is the usual count (Dao et al., FlashAttention-2, 2023, section 4.1). It excludes the softmax and, with a
        causal mask, half of the diagonal and everything computed above it.
        """
        return 4 * self.sequence**2 * self.head * self.heads // (2 if self.causal else 1)

    def heads_within(self, scores: int) -> int:
        """Return the number of heads, at least 1, that together have at most `scores` scores."""
        return min(self.heads, max(1, scores // self.sequence**2))

    def work(self, itemsize: int) -> Work:
        """Return the FLOP, and the bytes of Q, K and V read once and of O written once."""
        return Work(flops=self.flops, bytes=4 * self.heads * self.sequence * self.head * itemsize)
