"""Pointer chasing: cache lines that point to one another in one random cycle, and the loop that follows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from accelbench.kernels.lib.cpu.threads import compiled
from accelbench.profiling.records.quality import Verification

LINE = 64
"""Bytes from one pointer to the next: a cache line of x86-64 and of most Arm cores."""
STEPS = 1 << 18
"""Accesses of one execution: 0.3 ms in L1, 30 ms in memory. The next execution goes on where this one ended."""


@intrinsic
def read_pointer(typing: Any, address: Any) -> Any:
    """Return the pointer that is stored at that address: one load, and no arithmetic before it."""
    if address != types.uint64:
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], ir.IntType(64).as_pointer()))

    return types.uint64(types.uint64), codegen


@compiled
def chase(address: Any, steps: int) -> Any:
    """Return the address at which one arrives after that many steps."""
    for _ in range(steps):
        address = read_pointer(address)
    return address


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


class Chaser:
    """A chase along a random cycle through the lines of an array of pointers; each run goes on where the last ended."""

    def __init__(self, pointers: Any, rng: np.random.Generator) -> None:
        self.pointers = pointers
        self.cycle = Cycle(pointers.ctypes.data, pointers.nbytes // LINE, LINE, rng)
        self.draw()

    def draw(self) -> None:
        """Draw another cycle, and go back to its first line."""
        self.cycle.draw(self.pointers)
        self.position = np.uint64(self.cycle.after(0))

    def run(self) -> None:
        """Follow STEPS pointers."""
        self.position = np.uint64(chase(self.position, STEPS))

    def verify(self, run: Callable[[], None]) -> Verification:
        """Check where `run`, which calls this one's `run` once, comes to on a fresh cycle."""
        self.draw()
        run()
        return self.cycle.verify(STEPS, int(self.position))
