"""Check of attention: rows of O recomputed in float64, and a tolerance derived from rounding.

Few rows are all checked; of many, random rows of every head and its last one, which attends to every key. A NaN or
infinity in any row fails.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from accelbench.kernels.lib.formats import ACCUMULATION, UNIT_ROUNDOFF, by_all_cpus
from accelbench.profiling.records.quality import Verification
from accelbench.profiling.timing.verification import relative_error, verify_close

CHECKED = 1 << 28
"""Maximum number of recomputed scores: 10 to 20 GFLOP in float64 for heads of 64 or 128."""
AT_ONCE = 1 << 20
"""Scores that a thread holds in float64 at a time: 8 MiB."""
SAFETY = 4.0
"""A sum of n terms errs by about u·√n of their magnitudes in any order; this many times that is hardly ever exceeded
(Higham and Mary, "A new approach to probabilistic rounding error analysis", 2019)."""
RESCALED = 64
"""Roundings of a running sum whose maximum grows: four each time, sixteen times; a random row has ln 65,536 ≈ 11."""


def tolerance(dtype: str, sequence: int, head: int, largest_score: float) -> float:
    """Return the largest error that rounding explains, relative to the sum Σ p·|v| of an element of O.

    A score is a sum of d products, whose magnitudes sum to at most S = ‖q‖·‖k‖/√d; with the scale it errs by
    (4·√d + 2)·u·S. The difference to the maximum, at most 2·S, is rounded, and its exponential errs by 4u. A weight p
    divides such a number by the sum of such numbers, so that its relative error is at most twice theirs. Sums of n of
    them err by 4·√n·u, once over the weights and once over the products with V, and are rescaled. Types of 16 bits
    round the weights and O in addition; that float16 rounds weights below 2⁻¹⁴ more coarsely, by up to 2⁻²⁵ each, is
    little beside that.
    """
    unit = ACCUMULATION.get(dtype, 2.0**-23)
    rounded = 0.0 if dtype in ACCUMULATION else 2 * UNIT_ROUNDOFF[dtype]
    scores = 2 * ((SAFETY * math.sqrt(head) + 2) * largest_score + 2 * largest_score + 4)
    return rounded + unit * (scores + 2 * SAFETY * math.sqrt(sequence) + RESCALED + 8)


def verify_attention(
    q: Any, k: Any, v: Any, o: Any, dtype: str = "float32", causal: bool = True, rng: np.random.Generator | None = None
) -> Verification:
    """Check O against float64; all are (heads, sequence, head), as numbers that were given to the kernel.

    `rng` draws the rows that are checked where there are more than `CHECKED` scores.
    """
    heads, sequence, head = q.shape
    rows = rows_to_check(heads, sequence, rng or np.random.default_rng(0))
    norms = [np.sqrt(np.square(x, dtype=np.float64).sum(axis=2)).max() for x in (q, k)]
    limit = tolerance(dtype, sequence, head, float(norms[0] * norms[1]) / math.sqrt(head))
    step = max(1, AT_ONCE // sequence)
    parts = [(number, rows[i : i + step]) for number in range(heads) for i in range(0, len(rows), step)]

    def check(number: int, some: Any) -> tuple[float, tuple[Any, Any, Any]]:
        expected, scale = attend(q[number, some], k[number], v[number], some if causal else None)
        found = o[number, some]
        return relative_error(found, expected, scale), (found, expected, scale)

    _, (found, expected, scale) = max(by_all_cpus(check, *zip(*parts, strict=True)), key=lambda part: part[0])
    method = "float64, " + ("every element" if len(rows) == sequence else f"{len(rows)} rows of every head")
    if not np.isfinite(o).all():
        return Verification(False, method, float(np.finfo(np.float64).max), limit, found="an element that is no number")
    return verify_close(found, expected, limit, method, scale)


def rows_to_check(heads: int, sequence: int, rng: np.random.Generator) -> Any:
    """Return the rows of every head that are checked, in order: all, or so many that `CHECKED` scores are computed."""
    count = min(sequence, max(1, CHECKED // (heads * sequence)))
    drawn = rng.choice(sequence - 1, count - 1, replace=False) if count < sequence else np.arange(sequence - 1)
    return np.append(np.sort(drawn), sequence - 1)


def attend(q: Any, k: Any, v: Any, rows: Any) -> tuple[Any, Any]:
    """Return some rows of a head's O, and Σ p·|v| of each element; `rows` are their places, None without a mask."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    weights = q @ k.T
    weights /= math.sqrt(q.shape[1])
    if rows is not None:
        weights[np.arange(len(k)) > rows[:, None]] = -np.inf
    weights -= weights.max(axis=1, keepdims=True)
    np.exp(weights, out=weights)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights @ v, weights @ np.abs(v)
