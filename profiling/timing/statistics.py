"""Statistics of time samples: pure functions that assume nothing about the shape of their distribution.

Samples are positive seconds. Every interval tells the coverage that it really has, which for few samples is less than
was asked for. All of it takes the samples of one run as independent; what changes from run to run is not in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, ndtr, ndtri

from profiling.records.timing import Summary

Samples: TypeAlias = Sequence[float] | NDArray[np.float64]

CONFIDENCE = 0.95
TUKEY_FENCE = 1.5
MAX_COMPARED = 1000
"""The samples of each set that enter a comparison: a million pairs, and already an interval of 3 % of the ranks."""
MAX_EXACT = 20
"""The size of the smaller set up to which the rank distribution is counted, not taken as normal."""
MAX_EXACT_TEST = 8
"""The same size for the p value, where exactness costs more: SciPy's own rule for `mannwhitneyu(method="auto")`."""


@dataclass(frozen=True)
class Interval:
    """An interval, and the probability with which it holds the true value."""

    low: float
    high: float
    confidence: float


@dataclass(frozen=True)
class RatioInterval(Interval):
    """An interval with its point estimate inside."""

    ratio: float


def summarize(samples: Samples) -> Summary:
    """Describe the samples of one point; `ValueError` unless there is at least one and all are positive."""
    x = _checked(samples)
    q1, median, q3 = quartiles(x)
    interval = median_interval(x)
    return Summary(
        count=len(x),
        median=median,
        ci_low=interval.low,
        ci_high=interval.high,
        ci_confidence=interval.confidence,
        minimum=float(x.min()),
        q1=q1,
        q3=q3,
        maximum=float(x.max()),
        mean=float(x.mean()),
        relative_stdev=relative_stdev(x),
        outliers=tukey_outliers(x),
    )


def quartiles(samples: Samples) -> tuple[float, float, float]:
    """Return first quartile, median and third quartile, linear between order statistics.

    Definition 7 of Hyndman & Fan, "Sample quantiles in statistical packages", The American Statistician 50 (1996).
    """
    q1, median, q3 = np.quantile(_checked(samples), (0.25, 0.5, 0.75))
    return float(q1), float(median), float(q3)


def median_interval(samples: Samples, confidence: float = CONFIDENCE) -> Interval:
    """Return the order statistics [x₍k₎, x₍n+1−k₎], for the largest k whose interval has that confidence.

    The number of samples below the true median is binomial, B ~ Bin(n, ½), so the coverage is 1 − 2·P(B ≤ k−1) whatever
    the distribution (David & Nagaraja, "Order Statistics", 3rd ed., §7.1). Where even the extremes (k = 1) fall
    short of it, as with five samples or fewer at 0.95, they are returned with the coverage 1 − 2^(1−n).
    """
    x = np.sort(_checked(samples))
    n = len(x)
    tail = bdtr(np.arange(n // 2 + 1), n, 0.5)  # P(B ≤ 0), P(B ≤ 1), …
    k = max(1, int(np.count_nonzero(tail <= (1 - confidence) / 2)))
    return Interval(float(x[k - 1]), float(x[n - k]), max(0.0, float(1 - 2 * tail[k - 1])))


def relative_stdev(samples: Samples) -> float:
    """Return the standard deviation (n − 1 in the denominator) over the mean; 0 for a single sample."""
    x = _checked(samples)
    return float(x.std(ddof=1) / x.mean()) if len(x) > 1 else 0.0


def tukey_outliers(samples: Samples) -> int:
    """Return how many samples lie more than 1.5 interquartile ranges outside the quartiles.

    Tukey, "Exploratory Data Analysis" (1977), §2C: the inner fences.
    """
    x = _checked(samples)
    q1, _, q3 = quartiles(x)
    fence = TUKEY_FENCE * (q3 - q1)
    return int(np.count_nonzero((x < q1 - fence) | (x > q3 + fence)))


def mann_whitney_p(a: Samples, b: Samples) -> float:
    """Return the two-sided p value of the Mann–Whitney rank test that neither set tends to be larger.

    Mann & Whitney, Annals of Mathematical Statistics 18 (1947). Exact for small sets without ties, otherwise the normal
    approximation corrected for ties, but never below what sets of this size can reach.
    """
    from scipy.stats import mannwhitneyu  # costs a second to import, and only comparisons need it

    x, y = _thinned(_checked(a)), _thinned(_checked(b))
    tied = len(np.unique(np.concatenate((x, y)))) < len(x) + len(y)
    exact = min(len(x), len(y)) <= MAX_EXACT_TEST and not tied
    p = mannwhitneyu(x, y, alternative="two-sided", method="exact" if exact else "asymptotic").pvalue
    return min(1.0, max(float(p), smallest_p(len(x), len(y))))


def smallest_p(n: int, m: int) -> float:
    """Return the rank test's p value when every one of n samples lies below every one of m: 2 / C(n+m, n)."""
    return min(1.0, 2 / comb(n + m, n))


def ratio_interval(a: Samples, b: Samples, confidence: float = 0.99) -> RatioInterval:
    """Return the factor by which the samples `b` exceed the samples `a`: the Hodges–Lehmann estimate and its interval.

    If b is distributed as θ·a, then log b − log a is a shift. Its estimate is the median of all n·m pairwise
    differences, and its interval their k-th smallest and k-th largest, for the largest k with
    P(U ≤ k−1) ≤ (1 − confidence)/2 under the null distribution of the Mann–Whitney U: the ratios that the rank test
    does not reject (Hodges & Lehmann, Annals of Mathematical Statistics 34 (1963); Hollander, Wolfe & Chicken,
    "Nonparametric Statistical Methods", 3rd ed., §4.2–4.3). Where even the extremes fall short of the confidence they
    are returned with the coverage they have. Sets larger than `MAX_COMPARED` are thinned, always in the same way.
    """
    x, y = _thinned(_checked(a)), _thinned(_checked(b))
    shifts = (np.log(y)[:, None] - np.log(x)[None, :]).ravel()
    k, real_confidence = _rank_of_bound(len(x), len(y), confidence)
    pairs = len(shifts)
    middle = [(pairs - 1) // 2, pairs // 2]
    shifts.partition([k - 1, *middle, pairs - k])
    ratio, low, high = np.exp([shifts[middle].mean(), shifts[k - 1], shifts[pairs - k]])
    return RatioInterval(float(low), float(high), real_confidence, float(ratio))


def _rank_of_bound(n: int, m: int, confidence: float) -> tuple[int, float]:
    """Return the rank k of `ratio_interval` for sets of n and m, at least 1, and the coverage 1 − 2·P(U ≤ k−1)."""
    alpha = 1 - confidence
    if min(n, m) <= MAX_EXACT:
        tail = np.cumsum(rank_distribution(n, m)[: n * m // 2 + 1])
        k = max(1, int(np.count_nonzero(tail <= alpha / 2)))
        return k, max(0.0, float(1 - 2 * tail[k - 1]))
    mean, stdev = n * m / 2, (n * m * (n + m + 1) / 12) ** 0.5
    k = int(mean - 0.5 + ndtri(alpha / 2) * stdev) + 1  # P(U ≤ k−1) ≈ Φ((k − ½ − mean) / stdev)
    return k, float(1 - 2 * ndtr((k - 0.5 - mean) / stdev))


@lru_cache(maxsize=64)
def rank_distribution(n: int, m: int) -> NDArray[np.float64]:
    """Return P(U = u) for u = 0 … n·m when both sets come from one distribution.

    The counts are the coefficients of the Gaussian binomial C(n+m, n)_q = Π (1 − q^(m+i)) / (1 − q^i), i = 1 … n, here
    in exact integers (Mann & Whitney 1947; Andrews, "The Theory of Partitions", ch. 3).
    """
    n, m = sorted((n, m))
    counts = [1] + [0] * (n * m)
    for i in range(1, n + 1):
        for u in range(n * m, m + i - 1, -1):
            counts[u] -= counts[u - m - i]
        for u in range(i, n * m + 1):
            counts[u] += counts[u - i]
    total = comb(n + m, n)
    probabilities = np.array([count / total for count in counts])
    probabilities.setflags(write=False)  # the cached array is everybody's
    return probabilities


def _thinned(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Draw at most `MAX_COMPARED` samples without replacement, by a fixed seed, so that the answer never changes."""
    if len(x) <= MAX_COMPARED:
        return x
    return np.random.default_rng(0).choice(x, MAX_COMPARED, replace=False, shuffle=False)


def _checked(samples: Samples) -> NDArray[np.float64]:
    x = np.asarray(samples, dtype=np.float64)
    if x.ndim != 1 or x.size == 0 or not (np.isfinite(x) & (x > 0)).all():
        raise ValueError("samples must be at least one, positive and finite")
    return x
