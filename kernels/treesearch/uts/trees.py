"""Trees of the Unbalanced Tree Search benchmark (UTS) and their published counts.

The state of a node is 20 bytes: SHA-1(16 zero bytes ‖ seed) for the root, SHA-1(parent's state ‖ i) for child i, with
both numbers as 4 bytes in big-endian order. The random number of a node is the last word of its state without the
highest bit. It determines the number of children, so the size of a subtree is known only after its search. Every node
is hashed, even if its depth alone implies that it has no children: one item of work is one SHA-1.

Source: Olivier, Huan, Liu, Prins, Dinan, Sadayappan and Tseng, "UTS: An Unbalanced Tree Search Benchmark", LCPC 2006;
parameters and counts are from the sample trees of the benchmark.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

from accelbench.profiling.records.quality import Verification

MAX_CHILDREN = 100
"""Maximum number of children of any node except the root of a binomial tree."""
RANDOM_VALUES = 1 << 31
"""Upper limit of random numbers (exclusive); as a threshold it is never reached."""
STATE_WORDS = 5
"""Words of a node's state, a SHA-1 digest in big-endian order."""


@dataclass(frozen=True)
class Geometric:
    """Geometric law: a node at depth h has floor(log(1−u) / log(1−p)) children, at most 100.

    u is uniform in [0, 1), and p = 1 / (1 + b(h)), so that the average number of children is b(h).
    """

    b: float
    shape: Literal["linear", "cyclic", "fixed"]
    """Shape of b(h) from b(0) = b (options `-a0`, `-a2` and `-a3` of the published program): linear to 0 at depth d,
    b^sin(2πh/d) up to depth 5d (cyclic), or b up to depth d (fixed)."""
    d: int

    @property
    def levels(self) -> int:
        """Smallest depth at which no node has children."""
        return 5 * self.d + 1 if self.shape == "cyclic" else self.d

    def average(self, depth: int) -> float:
        """Return b(depth) for depths below `levels`."""
        if self.shape == "fixed" or depth == 0:
            return self.b
        if self.shape == "linear":
            return self.b * (1 - depth / self.d)
        return float(self.b ** math.sin(2 * 3.141592653589793 * depth / self.d))

    def children(self, depth: int, random: int) -> int:
        """Return the number of children by the published formula in double precision; searches use `thresholds`."""
        p = 1 / (1 + self.average(depth))
        u = random / RANDOM_VALUES
        return min(MAX_CHILDREN, math.floor(math.log(1 - u) / math.log(1 - p)))

    def thresholds(self) -> Any:
        """Return uint32[levels, 101]: a node at depth h has as many children as row h has elements ≤ its random number.

        Rows ascend. Because the formula is monotonic in the random number, element c−1 is the smallest number with c
        children, found by bisection, so that integer comparisons are equivalent to the formula on every device. If no
        such number exists, the element is 2³¹, like the last element of every row, at which a search in the row ends.
        """
        rows = np.full((self.levels, MAX_CHILDREN + 1), RANDOM_VALUES, np.uint32)
        known: dict[float, Any] = {}
        for depth in range(self.levels):
            average = self.average(depth)
            if average not in known:
                known[average] = [_smallest(self.children, depth, c) for c in range(1, MAX_CHILDREN + 1)]
            rows[depth, :MAX_CHILDREN] = known[average]
        return rows


def _smallest(children: Callable[[int, int], int], depth: int, wanted: int) -> int:
    """Return the smallest random number with at least `wanted` children; 2³¹ if there is none."""
    low, high = 0, RANDOM_VALUES
    while low < high:
        middle = (low + high) // 2
        if children(depth, middle) >= wanted:
            high = middle
        else:
            low = middle + 1
    return low


@dataclass(frozen=True)
class Binomial:
    """Binomial law: the root has `root` children, every other node `m` with probability q, otherwise none."""

    root: int
    q: float
    m: int

    @property
    def below(self) -> int:
        """Integer form of random / 2³¹ < q: a node has m children if its random number is below this number.

        It is q · 2³¹ rounded up; the product is exact in double precision.
        """
        return math.ceil(self.q * RANDOM_VALUES)


@dataclass(frozen=True)
class Tree:
    """Sample tree with its published counts."""

    name: str
    law: Geometric | Binomial
    seed: int
    nodes: int
    """Number of nodes, including the root."""
    depth: int
    """Depth of the deepest node; the root has depth 0."""
    leaves: int
    """Number of nodes without children."""

    @property
    def root(self) -> Any:
        """State of the root as uint32[5]."""
        digest = hashlib.sha1(bytes(16) + self.seed.to_bytes(4, "big")).digest()
        return np.frombuffer(digest, ">u4").astype(np.uint32)

    @property
    def root_children(self) -> int:
        """Return the number of children of the root."""
        if isinstance(self.law, Binomial):
            return self.law.root
        return self.law.children(0, int(self.root[-1]) % RANDOM_VALUES) if self.law.levels else 0

    def verify(self, nodes: int, leaves: int, depth: int) -> Verification:
        """Check the three counts of the complete tree against the published ones."""
        expected = f"{self.nodes} nodes, {self.leaves} leaves, depth {self.depth}"
        found = f"{nodes} nodes, {leaves} leaves, depth {depth}"
        return Verification(
            passed=found == expected,
            method="published counts of nodes and leaves, and depth",
            expected=expected,
            found=found,
        )


TREES = {
    tree.name: tree
    for tree in (
        Tree("T1", Geometric(4, "fixed", 10), seed=19, nodes=4130071, depth=10, leaves=3305118),
        Tree("T2", Geometric(6, "cyclic", 16), seed=502, nodes=4117769, depth=81, leaves=2342762),
        Tree("T3", Binomial(2000, 0.124875, 8), seed=42, nodes=4112897, depth=1572, leaves=3599034),
        Tree("T5", Geometric(4, "linear", 20), seed=34, nodes=4147582, depth=20, leaves=2181318),
        Tree("T1L", Geometric(4, "fixed", 13), seed=29, nodes=102181082, depth=13, leaves=81746377),
        Tree("T3L", Binomial(2000, 0.200014, 5), seed=7, nodes=111345631, depth=17844, leaves=89076904),
        Tree("T1XL", Geometric(4, "fixed", 15), seed=29, nodes=1635119272, depth=15, leaves=1308100063),
    )
}


@cache
def thresholds_of(law: Geometric) -> Any:
    """Return `law.thresholds()`, computed once; the array is read-only."""
    rows = law.thresholds()
    rows.setflags(write=False)
    return rows
