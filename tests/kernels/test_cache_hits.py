"""Cache hits of the pointer chase of cache-latency, with caches that replace the least recently used line.

`tests.ptx` executes the kernel: the block reads the first lines in order, and one thread then follows the cycle.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from accelbench.kernels.cache import gpu_latency


def reads(cycle: Any, filling: int, begin: int, steps: int) -> Iterator[int]:
    """Yield the lines read by one execution, whose chase starts at step `begin` of the cycle."""
    yield from range(filling)
    for step in range(begin, begin + steps):
        yield int(cycle[step % len(cycle)])


class Cache:
    """Cache of `capacity` lines, which replaces the least recently used line."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.lines = capacity, OrderedDict[int, None]()

    def read(self, line: int) -> bool:
        """Read a line; return whether it was in the cache."""
        found = line in self.lines
        self.lines[line] = None
        self.lines.move_to_end(line)
        if len(self.lines) > self.capacity:
            self.lines.popitem(last=False)
        return found


L2_LINES, CHASED = 4096, 512


@pytest.mark.parametrize("emptied", [True, False], ids=["isolated", "batch"])
@pytest.mark.parametrize("size", [0.25, 0.5, 0.75, 1, 1.02, 1.25, 2, 2.5, 10])
def test_a_chase_hits_l2_always_or_never_depending_on_the_set_size(size: float, emptied: bool) -> None:
    # The set is L2 times `size`; an execution chases an eighth of L2, as on a card of 64 MiB.
    lines = int(size * L2_LINES)
    cycle = np.random.default_rng(3).permutation(lines)
    filling = gpu_latency.lines_to_fill(lines, L2_LINES * gpu_latency.LINE)
    l2, chased, found = Cache(L2_LINES), 0, 0
    for _ in range(3 * lines // CHASED):
        if emptied:
            l2.lines.clear()
        hits = [l2.read(line) for line in reads(cycle, filling, chased, CHASED)]
        chased += CHASED
        found += sum(hits[filling:])
    assert found == (chased if size <= 1 else 0)


@pytest.mark.parametrize("l1_lines", [1024, 2048])
@pytest.mark.parametrize("size", [1.1, 2, 4, 16])
def test_a_chase_larger_than_l1_rarely_hits_l1(size: float, l1_lines: int) -> None:
    lines = int(size * l1_lines)
    cycle = np.random.default_rng(4).permutation(lines)
    l1 = Cache(l1_lines)
    hits = sum([l1.read(line) for line in reads(cycle, lines, 0, gpu_latency.STEPS)][lines:])
    assert hits <= l1_lines
    assert hits / gpu_latency.STEPS <= 0.032
