"""The trees of the Unbalanced Tree Search benchmark (UTS) and their published counts.

A node is 20 bytes. The root's are SHA-1(16 zero bytes ‖ seed), child i's are SHA-1(parent's 20 bytes ‖ i), both numbers
as 4 bytes with the highest first. A node's random number is its last word without the highest bit. It decides
how many children the node has, so that a subtree's size is known only when it has been searched. Every node is hashed,
also where its depth alone says that it has no children: one item of work is one SHA-1.

Source: Olivier, Huan, Liu, Prins, Dinan, Sadayappan and Tseng, "UTS: An Unbalanced Tree Search Benchmark", LCPC 2006;
parameters and counts are those of the benchmark's own sample trees.
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
"""The most children of any node but the root of a binomial tree."""
RANDOM_VALUES = 1 << 31
"""Random numbers are below this; as a threshold it is never reached."""
STATE_WORDS = 5
"""A node's state: the words of a SHA-1 digest, which is written with the highest byte of each first."""


@dataclass(frozen=True)
class Geometric:
    """A node at depth h has floor(log(1−u) / log(1−p)) children, at most 100: p = 1/(1+b(h)), b(h) on the average."""

    b: float
    shape: Literal["linear", "cyclic", "fixed"]
    """The course of b(h) from b(0) = b: down to 0 at depth d in a straight line, b^sin(2πh/d) up to depth 5d, or b up
    to depth d; `-a0`, `-a2` and `-a3` of the published program."""
    d: int

    @property
    def levels(self) -> int:
        """Return the depth from which on no node has children."""
        return 5 * self.d + 1 if self.shape == "cyclic" else self.d

    def average(self, depth: int) -> float:
        """Return b(depth), for depths below `levels`."""
        if self.shape == "fixed" or depth == 0:
            return self.b
        if self.shape == "linear":
            return self.b * (1 - depth / self.d)
        return float(self.b ** math.sin(2 * 3.141592653589793 * depth / self.d))

    def children(self, depth: int, random: int) -> int:
        """Return the children by the published formula in double precision; the search itself uses `thresholds`."""
        p = 1 / (1 + self.average(depth))
        u = random / RANDOM_VALUES
        return min(MAX_CHILDREN, math.floor(math.log(1 - u) / math.log(1 - p)))

    def thresholds(self) -> Any:
        """uint32[levels, 101]: at depth h, a node has as many children as elements of row h are ≤ its random number.

        Rows ascend. The formula never falls when the random number grows; element c−1 is the smallest number with c
        children, found by bisection, so that integers say exactly what the formula says, on every device. Where there
        is no such number it is 2³¹, as is the last element of every row: a loop that looks for the first element
        above the random number ends there.
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
    """Return the smallest random number that gives at least so many children; 2³¹ if none does."""
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
    """The root has `root` children, every other node `m` with probability q, else none."""

    root: int
    q: float
    m: int

    @property
    def below(self) -> int:
        """A node has its m children if its random number is below this one: if random / 2³¹ < q, in integers.

        Multiplying a double by 2³¹ is exact, so rounding up what is not a whole number loses nothing.
        """
        return math.ceil(self.q * RANDOM_VALUES)


@dataclass(frozen=True)
class Tree:
    """One tree and what is published about it."""

    name: str
    law: Geometric | Binomial
    seed: int
    nodes: int
    """The number of nodes, the root included."""
    depth: int
    """The depth of the deepest node; the root's is 0."""
    leaves: int
    """The number of nodes without children."""

    @property
    def root(self) -> Any:
        """The root's state as uint32[5]."""
        digest = hashlib.sha1(bytes(16) + self.seed.to_bytes(4, "big")).digest()
        return np.frombuffer(digest, ">u4").astype(np.uint32)

    @property
    def root_children(self) -> int:
        """Return how many children the root has."""
        if isinstance(self.law, Binomial):
            return self.law.root
        return self.law.children(0, int(self.root[-1]) % RANDOM_VALUES) if self.law.levels else 0

    def verify(self, nodes: int, leaves: int, depth: int) -> Verification:
        """Passes only if all three counts of the whole tree are the published ones."""
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
    """Return `law.thresholds()`, computed once and not to be written to."""
    rows = law.thresholds()
    rows.setflags(write=False)
    return rows
