"""Inputs of all ranks, from a seed that the ranks share, and the expected results of each rank.

A rank's numbers are standard normal float32 of a generator of (seed, rank, piece), so that any rank can draw any part
of any other's, and none holds more of them than a piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from accelbench.profiling.timing.verification import relative_error

PIECE = 1 << 18
"""Elements drawn at once: 1 MiB."""
UNIT = 2.0**-24
"""The unit roundoff of float32."""


def numbers(seed: int, rank: int, begin: int, end: int) -> Any:
    """Return the elements `begin` to `end` of what that rank gives."""
    found = [
        np.random.default_rng([seed, rank, piece]).standard_normal(PIECE, dtype=np.float32)
        for piece in range(begin // PIECE, -(-end // PIECE))
    ]
    first = begin // PIECE * PIECE
    return np.concatenate([np.empty(0, np.float32), *found])[begin - first : end - first]


def expected(op: str, seed: int, rank: int, ranks: int, target: int, begin: int, end: int) -> tuple[Any, Any]:
    """Return elements `begin` to `end` of the `target` many that the rank ends up with, and the scale of their errors.

    Both in float64; the scale of a sum is the sum of the magnitudes, and of what is only moved its own.
    """
    if op in ("all-reduce", "reduce-scatter"):
        offset = rank * target if op == "reduce-scatter" else 0
        given = (numbers(seed, other, offset + begin, offset + end).astype(np.float64) for other in range(ranks))
        total, scale = np.zeros(end - begin), np.zeros(end - begin)
        for terms in given:
            total += terms
            scale += np.abs(terms)
        return total, scale
    if op == "all-gather":
        moved = np.concatenate(list(_gathered(seed, target // ranks, begin, end)))
    else:
        moved = numbers(seed, 0 if op == "broadcast" else (rank - 1) % ranks, begin, end)
    moved = moved.astype(np.float64)
    return moved, np.abs(moved)


def _gathered(seed: int, part: int, begin: int, end: int) -> Iterator[Any]:
    """Yield the elements `begin` to `end` of the ranks' parts, one part after the other."""
    for rank in range(begin // part, -(-end // part)):
        yield numbers(seed, rank, max(0, begin - rank * part), min(part, end - rank * part))


def error(found: Any, op: str, seed: int, rank: int, ranks: int, target: int, begin: int) -> float:
    """Return the largest relative error of the elements from `begin` on; infinite where one was not written (NaN)."""
    right, scale = expected(op, seed, rank, ranks, target, begin, begin + len(found))
    return relative_error(found, right, scale)


def tolerance(op: str, ranks: int) -> float:
    """Return the bound on a float32 sum's error, for n numbers in any order, relative to Σ|x|; what is moved is exact.

    The bound is (n−1)·u / (1 − (n−1)·u).

    Source: Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., 2002, section 4.2. The float64 sum that
    it is compared with is 2²⁹ times as exact.
    """
    if op not in ("all-reduce", "reduce-scatter"):
        return 0.0
    steps = (ranks - 1) * UNIT
    return steps / (1 - steps)
