"""Ratio of two speeds from pairs of consecutive measurements.

A pair is one measurement of each side in direct succession, each in a new process. Slow drift affects both measurements
alike and cancels in their ratio. The order alternates between pairs (A B, B A, B A, A B, …), so that a steady drift
favours neither side. All computations use logarithms, in which a ratio and its inverse have the same weight.

The interval is computed by the signed-rank test, which assumes only the same distribution of noise on both sides: the
differences of the logarithms are then symmetric around the logarithm of the ratio.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from accelbench.profiling.timing.statistics import Estimate

Letter = Literal["A", "B"]
TimedPair = tuple[Letter, Letter]

CONFIDENCE = 0.95
"""Probability that the interval contains the true ratio at every look."""
LOOKS = (8, 12, 18, 28, 42, 62, 94, 140)
"""Numbers of pairs at which the interval is computed: steps of a factor 1.5, even because a block has two pairs."""
LOOK_CONFIDENCE = 0.99
"""Confidence of each look, at which all eight together have 95 %.

All looks have the same level, as in Pocock, "Group sequential methods in the design and analysis of clinical trials",
Biometrika 64 (1977). His constants are for looks at equal steps; for the steps of `LOOKS`, 99 % each give 94.95 % in
total.
"""
LEAST_PAIRS = LOOKS[0]
"""Minimum number of pairs for an interval with `LOOK_CONFIDENCE`: eight of one sign have p = 2 / 2⁸ = 0.008."""
BLOCK: tuple[TimedPair, TimedPair] = (("A", "B"), ("B", "A"))
"""First block, in which a linear drift cancels. Every second block is reversed, so that a quadratic drift cancels."""


def pairs_of(block: int) -> tuple[TimedPair, TimedPair]:
    """Return the two pairs of a block (from 0), each in its order of measurement: A B B A, B A A B, A B B A, …"""
    return BLOCK if block % 2 == 0 else (BLOCK[1], BLOCK[0])


def half_width(speed: Estimate) -> float:
    """Return the half width of the interval as a share of the ratio."""
    return math.sqrt(speed.high / speed.low) - 1


def speed_ratio(ratios: Sequence[float], confidence: float = LOOK_CONFIDENCE) -> Estimate:
    """Return B's speed relative to A's from the ratios of the pairs: the Hodges–Lehmann estimate and its interval.

    The estimate is the median of the n·(n+1)/2 Walsh averages of the logarithms. The interval is from their k-th
    smallest to their k-th largest, for the largest k with P(W ≤ k−1) ≤ (1 − confidence)/2 under the null distribution
    of the signed-rank statistic W: the ratios that Wilcoxon's test does not reject (Hollander, Wolfe & Chicken,
    "Nonparametric Statistical Methods", 3rd ed., §3.2–3.3). With too few pairs the interval is the full range, with
    its lower confidence. Raises ValueError for no ratios and for ratios that are not positive and finite.
    """
    x = np.asarray(ratios, dtype=np.float64)
    if x.ndim != 1 or x.size == 0 or not (np.isfinite(x) & (x > 0)).all():
        raise ValueError("expected at least one ratio, all positive and finite")
    logs = np.log(x)
    rows, columns = np.triu_indices(len(logs))
    averages = np.sort((logs[rows] + logs[columns]) / 2)
    tail = np.cumsum(signed_rank_distribution(len(logs)))
    k = max(1, int(np.searchsorted(tail, (1 - confidence) / 2, side="right")))
    ratio, low, high = np.exp([np.median(averages), averages[k - 1], averages[-k]])
    return Estimate(float(low), float(high), max(0.0, float(1 - 2 * tail[k - 1])), float(ratio))


@lru_cache(maxsize=64)
def signed_rank_distribution(n: int) -> NDArray[np.float64]:
    """Return P(W = w) for w = 0 … n·(n+1)/2, where W is the sum of the ranks of the positive ones of n differences.

    Each rank i is included with probability 1/2: the generating function is Π (1 + qⁱ) / 2ⁿ, i = 1 … n.
    """
    probabilities = np.zeros(n * (n + 1) // 2 + 1)
    probabilities[0] = 1.0
    for rank in range(1, n + 1):
        shifted = np.zeros_like(probabilities)
        shifted[rank:] = probabilities[:-rank]
        probabilities = (probabilities + shifted) / 2
    probabilities.setflags(write=False)  # callers share the cached array
    return probabilities
