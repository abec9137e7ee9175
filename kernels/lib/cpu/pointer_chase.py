"""Lines of memory that point to one another in one random cycle through all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from accelbench.profiling.records.quality import Verification


class Cycle:
    """A cycle through `lines` lines of `line` bytes, whose first lies at the address `first`."""

    def __init__(self, first: int, lines: int, line: int, rng: np.random.Generator) -> None:
        self.first, self.line, self.rng = first, line, rng
        self.order = np.arange(lines)

    def draw(self, pointers: Any) -> None:
        """Write a fresh cycle: at the beginning of each line the address of the next.

        `pointers` are the lines as uint64. A random order closed to a ring is uniform among all cycles, as
        Sattolo's algorithm is.
        """
        self.order = self.rng.permutation(len(self.order))
        following = np.roll(self.order, -1) * self.line + self.first
        pointers[:: self.line // pointers.itemsize][self.order] = following.astype(np.uint64)

    def after(self, steps: int) -> int:
        """Return the address that many steps after the line at which the cycle is entered."""
        return self.first + self.line * int(self.order[steps % len(self.order)])

    def verify(self, steps: int, found: int) -> Verification:
        """Check where a chase ended that began at `after(0)`; it passed every line if it is longer than the cycle."""
        return Verification(
            passed=found == self.after(steps),
            method=f"where a fresh cycle leads in {steps} steps",
            expected=f"byte {self.after(steps) - self.first}",
            found=f"byte {found - self.first}",
        )
