"""Check of attention: rows of O recomputed in float64, and a tolerance derived from rounding.

All rows are checked if their scores are at most `CHECKED`; otherwise random rows of every head, and its last row, which
attends to every key. A NaN or infinity in any row fails the check.
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
"""Multiple of the expected error u·√n of a sum of n terms (relative to their magnitudes, in any order) that is hardly
ever exceeded (Higham and Mary, "A new approach to probabilistic rounding error analysis", 2019)."""
RESCALED = 64
"""Roundings from rescaling a running sum when the running maximum grows: 4 for each of 16 increases. A random row of
65,536 scores has about ln 65,536 ≈ 11 increases."""


def tolerance(dtype: str, sequence: int, head: int, largest_score: float) -> float:
    """Return the bound of the rounding error of an element of O, relative to its sum Σ p·|v|.

    A score is a sum of d products with magnitudes of at most S = ‖q‖·‖k‖/√d in total; including the scale, its error is
    (4·√d + 2)·u·S. The difference to the maximum, at most 2·S, is rounded, and its exponential has an error of 4u. A
    weight p is an exponential divided by a sum of exponentials, so its relative error is at most twice theirs. The two
    sums of n terms, over the weights and over the products with V, have errors of 4·√n·u each, and are rescaled. For
    16-bit types the weights and O are rounded in addition; the coarser rounding of float16 weights below 2⁻¹⁴, up to
    2⁻²⁵ each, is negligible.
    """
    unit = ACCUMULATION.get(dtype, 2.0**-23)
    rounded = 0.0 if dtype in ACCUMULATION else 2 * UNIT_ROUNDOFF[dtype]
    scores = 2 * ((SAFETY * math.sqrt(head) + 2) * largest_score + 2 * largest_score + 4)
    return rounded + unit * (scores + 2 * SAFETY * math.sqrt(sequence) + RESCALED + 8)


def verify_attention(
    q: Any, k: Any, v: Any, o: Any, dtype: str = "float32", causal: bool = True, rng: np.random.Generator | None = None
) -> Verification:
    """Check O against float64. All arrays have the shape (heads, sequence, head); Q, K and V are the kernel's inputs.

    `rng` selects the checked rows if there are more than `CHECKED` scores.
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
        return Verification(False, method, float(np.finfo(np.float64).max), limit, found="NaN or infinity")
    return verify_close(found, expected, limit, method, scale)


def rows_to_check(heads: int, sequence: int, rng: np.random.Generator) -> Any:
    """Return the sorted indices of the checked rows: all rows, or as many as keep the scores within `CHECKED`."""
    count = min(sequence, max(1, CHECKED // (heads * sequence)))
    drawn = rng.choice(sequence - 1, count - 1, replace=False) if count < sequence else np.arange(sequence - 1)
    return np.append(np.sort(drawn), sequence - 1)


def attend(q: Any, k: Any, v: Any, rows: Any) -> tuple[Any, Any]:
    """Return rows of a head's O, and Σ p·|v| of each element; `rows` are the row indices, or None without a mask."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    weights = q @ k.T
    weights /= math.sqrt(q.shape[1])
    if rows is not None:
        weights[np.arange(len(k)) > rows[:, None]] = -np.inf
    weights -= weights.max(axis=1, keepdims=True)
    np.exp(weights, out=weights)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights @ v, weights @ np.abs(v)
