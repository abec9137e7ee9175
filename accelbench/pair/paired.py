"""The ratio of two speeds, from pairs of measurements that are neighbours in time.

A pair is one measurement of each side, one straight after the other, each in a process of its own. What drifts slowly
is the same for both, and cancels in their ratio. The order within the pairs turns (A B, B A, B A, A B, …), so a steady
drift favours each side as often. All is done on logarithms, in which a ratio and its inverse weigh the same.

The interval is that of the signed-rank test. Where both sides are disturbed alike, the difference of their logarithms
is distributed symmetrically around that of the speeds, whatever the disturbances look like, and that is all it assumes.
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
"""The probability that the interval of a point holds the true ratio at every look."""
LOOKS = (8, 12, 18, 28, 42, 62, 94, 140)
"""The numbers of pairs at which the interval is looked at: each half as many again, and even, as blocks are of two."""
LOOK_CONFIDENCE = 0.99
"""The confidence of each look, so that all eight together hold the true ratio with 95 %.

All looks have the same level, as in Pocock, "Group sequential methods in the design and analysis of clinical trials",
Biometrika 64 (1977). His constants are for looks at equal steps; for these, 99 % each give 94.95 % in all.
"""
LEAST_PAIRS = LOOKS[0]
"""The fewest pairs whose interval can have the confidence of a look: eight of one sign have p = 2 / 2⁸ = 0.008."""
BLOCK: tuple[TimedPair, TimedPair] = (("A", "B"), ("B", "A"))
"""The first block, in which a steady drift cancels; every other one is turned round, so that one that bends does."""


def pairs_of(block: int) -> tuple[TimedPair, TimedPair]:
    """Return the two pairs of that block, each in the order in which it is measured; the first block has the number 0.

    The turns are A B B A, B A A B, A B B A, …
    """
    return BLOCK if block % 2 == 0 else (BLOCK[1], BLOCK[0])


def half_width(speed: Estimate) -> float:
    """Return how far the interval reaches to either side, as a share of the ratio."""
    return math.sqrt(speed.high / speed.low) - 1


def speed_ratio(ratios: Sequence[float], confidence: float = LOOK_CONFIDENCE) -> Estimate:
    """Return the speed of B over that of A from the ratios of the pairs: the Hodges–Lehmann estimate and its interval.

    The estimate is the median of the n·(n+1)/2 Walsh averages of the logarithms, and the interval their k-th smallest
    and k-th largest, for the largest k with P(W ≤ k−1) ≤ (1 − confidence)/2 under the null distribution of the
    signed-rank statistic W: the ratios that Wilcoxon's test does not reject (Hollander, Wolfe & Chicken,
    "Nonparametric Statistical Methods", 3rd ed., §3.2–3.3). Of too few pairs the extremes are returned, with the
    confidence that they have. ValueError unless there is a ratio and all are positive and finite.
    """
    x = np.asarray(ratios, dtype=np.float64)
    if x.ndim != 1 or x.size == 0 or not (np.isfinite(x) & (x > 0)).all():
        raise ValueError("the ratios must be at least one, positive and finite")
    logs = np.log(x)
    rows, columns = np.triu_indices(len(logs))
    averages = np.sort((logs[rows] + logs[columns]) / 2)
    tail = np.cumsum(signed_rank_distribution(len(logs)))
    k = max(1, int(np.searchsorted(tail, (1 - confidence) / 2, side="right")))
    ratio, low, high = np.exp([np.median(averages), averages[k - 1], averages[-k]])
    return Estimate(float(low), float(high), max(0.0, float(1 - 2 * tail[k - 1])), float(ratio))


@lru_cache(maxsize=64)
def signed_rank_distribution(n: int) -> NDArray[np.float64]:
    """Return P(W = w) for w = 0 … n·(n+1)/2, where W sums the ranks of n differences that are positive.

    Each rank i is in the sum or not with the same probability: the generating function is Π (1 + qⁱ) / 2ⁿ, i = 1 … n.
    """
    probabilities = np.zeros(n * (n + 1) // 2 + 1)
    probabilities[0] = 1.0
    for rank in range(1, n + 1):
        shifted = np.zeros_like(probabilities)
        shifted[rank:] = probabilities[:-rank]
        probabilities = (probabilities + shifted) / 2
    probabilities.setflags(write=False)  # the cached array is everybody's
    return probabilities
