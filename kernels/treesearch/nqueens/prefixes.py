"""Enumeration of the first rows of the N-Queens tree: all valid placements down to a cut-off depth.

Each placement is a state from which its subtree can be searched independently, one per thread. A state has three
words with columns as bits: `columns` are the occupied columns, `left` and `right` the columns of the next row attacked
along diagonals (Richards, "Backtracking algorithms in MCPL using bit patterns and recursion", 1997).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from accelbench.kernels.lib.cpu.threads import compiled

MAX_QUEENS = 31
"""Maximum board size: the columns must fit in a 32-bit word, with one additional bit for the shift to the left."""


@dataclass(frozen=True)
class Prefixes:
    """All valid placements of `depth` queens in the first `depth` rows, in the order of a depth-first search."""

    depth: int
    columns: Any
    """uint32, one element per placement: occupied columns."""
    left: Any
    """uint32: columns of the next row attacked along diagonals to higher columns."""
    right: Any
    """uint32: columns of the next row attacked along diagonals to lower columns."""
    nodes: int
    """Nodes in the levels 1 to `depth` of the tree."""
    queens: int
    solutions: int = 0
    """Solutions completed in these levels: always 0."""

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def weight(self) -> Any:
        """Factor of the solutions below each placement, as uint32: 1, because symmetry is not used."""
        return np.ones(len(self), np.uint32)


def enumerate_prefixes(queens: int, at_least: int) -> Prefixes:
    """Return the shallowest level of the tree with at least `at_least` placements.

    If there is none, return the widest level, but never the last row. Raise ValueError unless 1 ≤ queens ≤ 31.
    """
    if not 1 <= queens <= MAX_QUEENS:
        raise ValueError(f"{queens} queens are not supported: choose 1 to {MAX_QUEENS}")
    empty = np.zeros(1, np.uint32)
    level = Prefixes(0, empty, empty, empty, nodes=0, queens=queens)
    while len(level) < at_least and level.depth < queens - 1:
        columns, left, right = next_row(np.uint32((1 << queens) - 1), level.columns, level.left, level.right)
        if len(columns) < len(level):
            break  # the following levels have fewer placements
        level = Prefixes(level.depth + 1, columns, left, right, level.nodes + len(columns), queens)
    return level


@compiled
def next_row(board: Any, columns: Any, left: Any, right: Any) -> Any:
    """Return the placements with one more queen."""
    count = 0
    for i in range(len(columns)):
        free = board & ~(columns[i] | left[i] | right[i])
        while free:
            free &= free - np.uint32(1)
            count += 1
    next_columns = np.empty(count, np.uint32)
    next_left = np.empty(count, np.uint32)
    next_right = np.empty(count, np.uint32)
    count = 0
    for i in range(len(columns)):
        free = board & ~(columns[i] | left[i] | right[i])
        while free:
            queen = free & (~free + np.uint32(1))
            free ^= queen
            next_columns[count] = columns[i] | queen
            next_left[count] = (left[i] | queen) << np.uint32(1)
            next_right[count] = (right[i] | queen) >> np.uint32(1)
            count += 1
    return next_columns, next_left, next_right
