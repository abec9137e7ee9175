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
"""Bytes between pointers: a cache line of x86-64 and of most Arm cores."""
STEPS = 1 << 18
"""Accesses of one execution: 0.3 ms in L1, 30 ms in memory. The next execution continues from the last line."""


@intrinsic
def read_pointer(typing: Any, address: Any) -> Any:
    """Return the pointer stored at an address: one load without address arithmetic."""
    if address != types.uint64:
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], ir.IntType(64).as_pointer()))

    return types.uint64(types.uint64), codegen


@compiled
def chase(address: Any, steps: int) -> Any:
    """Return the address after following `steps` pointers."""
    for _ in range(steps):
        address = read_pointer(address)
    return address


class Cycle:
    """Random cycle through `lines` lines of `line` bytes, the first of which is at the address `first`."""

    def __init__(self, first: int, lines: int, line: int, rng: np.random.Generator) -> None:
        self.first, self.line, self.rng = first, line, rng
        self.order = np.arange(lines)

    def draw(self, pointers: Any) -> None:
        """Write a fresh random cycle: each line begins with the address of its successor.

        `pointers` are the lines as uint64. A random permutation closed to a ring is uniformly distributed over all
        cycles, like the result of Sattolo's algorithm.
        """
        self.order = self.rng.permutation(len(self.order))
        following = np.roll(self.order, -1) * self.line + self.first
        pointers[:: self.line // pointers.itemsize][self.order] = following.astype(np.uint64)

    def after(self, steps: int) -> int:
        """Return the address `steps` steps after the first line of the cycle."""
        return self.first + self.line * int(self.order[steps % len(self.order)])

    def verify(self, steps: int, found: int) -> Verification:
        """Check the address `found` after a chase from `after(0)`; with enough steps the chase visits every line."""
        return Verification(
            passed=found == self.after(steps),
            method=f"address after {steps} steps of a fresh cycle",
            expected=f"byte {self.after(steps) - self.first}",
            found=f"byte {found - self.first}",
        )


class Chaser:
    """Pointer chase along a random cycle through an array; each run continues from the end of the previous one."""

    def __init__(self, pointers: Any, rng: np.random.Generator) -> None:
        self.pointers = pointers
        self.cycle = Cycle(pointers.ctypes.data, pointers.nbytes // LINE, LINE, rng)
        self.draw()

    def draw(self) -> None:
        """Write another random cycle, and restart at its first line."""
        self.cycle.draw(self.pointers)
        self.position = np.uint64(self.cycle.after(0))

    def run(self) -> None:
        """Follow STEPS pointers."""
        self.position = np.uint64(chase(self.position, STEPS))

    def verify(self, run: Callable[[], None]) -> Verification:
        """Check the last address on a fresh cycle after `run`, which calls `self.run` once."""
        self.draw()
        run()
        return self.cycle.verify(STEPS, int(self.position))
