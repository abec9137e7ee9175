"""Statistics of time samples, without assumptions on the shape of their distribution.

Samples are positive seconds, in the order measured. They are autocorrelated, since clocks, caches and other load change
more slowly than samples are taken; `effective_size` is the equivalent number of independent samples. Every interval is
based on that number and carries its actual coverage, which for few samples is below the requested one. Variation
between processes is estimated from repetitions only: `summarize_rounds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log2, sqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, ndtri, stdtrit

from accelbench.profiling.records.timing import Summary

Samples: TypeAlias = Sequence[float] | NDArray[np.float64]

CONFIDENCE = 0.95
TUKEY_FENCE = 1.5
MOST_MISSING = 0.5
"""The most of the variance that is taken to be missing because samples are measured from their own mean."""
ROUNDING = 1e-9
"""The most by which an effective size may fall short of a whole number through the arithmetic alone."""


@dataclass(frozen=True)
class Interval:
    """An interval, and the probability with which it holds the true value."""

    low: float
    high: float
    confidence: float


@dataclass(frozen=True)
class Estimate(Interval):
    """An interval with its point estimate inside."""

    value: float


def summarize(samples: Samples) -> Summary:
    """Describe the samples of one point; `ValueError` unless there is at least one and all are positive."""
    x = _checked(samples)
    effective = effective_size(x)
    return _summary(x, quartiles(x)[1], median_interval(x, effective=effective), effective)


def summarize_rounds(rounds: Sequence[Samples]) -> Summary:
    """Describe a point by its rounds, each of which is the samples of one process; `ValueError` as for `summarize`.

    The median is that of the rounds' medians, with its interval `over_rounds`. All other statistics are of all samples
    together. One round is `summarize`.
    """
    if len(rounds) == 1:
        return summarize(rounds[0])
    summaries = [summarize(samples) for samples in rounds]
    if not summaries:
        raise ValueError("samples must be at least one, positive and finite")
    found = over_rounds([(summary.median, summary.ci_low, summary.ci_high) for summary in summaries])
    x = np.concatenate([_checked(samples) for samples in rounds])
    return _summary(x, found.value, found, sum(summary.effective or 0.0 for summary in summaries))


def over_rounds(rounds: Sequence[tuple[float, float, float]]) -> Estimate:
    """Return the median of two or more rounds' figures with an interval that covers what changes between processes.

    A round is its figure and the ends of its own interval. The interval over them is Student's for the mean of their
    logarithms, with one degree of freedom less than there are rounds, and holds their median. It is never narrower than
    what is left open within the rounds. Two rounds give one that covers and is wide, 13 standard errors either way.
    """
    figures, low, high = np.log(rounds).T
    count, median = len(figures), float(np.median([figure for figure, _, _ in rounds]))
    between = student_quantile(count - 1) * figures.std(ddof=1)
    within = np.sqrt(np.mean(np.square((high - low) / 2)))
    half = max(between, within) / count**0.5
    ends = [float(np.exp(figures.mean() + side * half)) for side in (-1, 1)]
    return Estimate(min(ends[0], median), max(ends[1], median), CONFIDENCE, median)


def _summary(x: NDArray[np.float64], median: float, interval: Interval, effective: float) -> Summary:
    q1, _, q3 = quartiles(x)
    return Summary(
        count=len(x),
        effective=effective,
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


def effective_size(samples: Samples) -> float:
    """Return how many independent samples would tell the median as well, from 1 to the number of samples n.

    It is n / τ with τ = 1 + 2·Σ ρₖ over the autocorrelations of the ranks, summed by pairs of neighbours and ended at
    the first pair that is not positive (Geyer, "Practical Markov chain Monte Carlo", Statistical Science 7 (1992),
    §3.3). Measured from the samples' own mean, the ρₖ come out too low by about (1 − ρₖ)·τ/n; that is put back once.
    Samples of any finite numbers have one; ValueError where there is none, or one that is not finite.
    """
    x = np.asarray(samples, dtype=np.float64)
    if x.ndim != 1 or x.size == 0 or not np.isfinite(x).all():
        raise ValueError("samples must be at least one, and finite")
    n = len(x)
    _, places, counts = np.unique(x, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places] - (n + 1) / 2
    if not ranks.any():
        return float(n)
    size = 1 << (2 * n - 1).bit_length()  # padded with zeros, so that the end does not meet the beginning
    covariance = np.fft.irfft(np.abs(np.fft.rfft(ranks, size)) ** 2, size)[:n]
    rho = covariance / covariance[0]
    zero = _rounding_of_pairs(size)
    missing = min(MOST_MISSING, _correlation_time(rho, zero) / n)
    tau = _correlation_time((1 - missing) * rho + missing * (1 - np.arange(n) / n), zero)
    return float(n / min(n, tau))


def _rounding_of_pairs(size: int) -> float:
    """Return the bound of the rounding error of a pair of autocorrelations computed by FFTs of `size` points.

    Ranks have many pairs that are exactly zero; without a tolerance, rounding decides whether the sum ends there.
    One FFT has the relative error e = 7·u·log₂(size) in the 2-norm (Higham, "Accuracy and Stability of Numerical
    Algorithms", 2nd ed., theorem 24.2, with u the unit roundoff). It enters the power spectrum twice, and the inverse
    FFT adds e times the 2-norm of the covariances, at most √size·c₀: a ρₖ is off by at most (2 + √size)·e. The share
    of variance that is put back is 1/n of the sum of n ρₖ, twice: 2 more of these errors, times |1 − k/n − ρₖ| ≤ 2.
    """
    unit_roundoff = float(np.finfo(np.float64).eps) / 2
    error = (2 + sqrt(size)) * 7 * unit_roundoff * log2(size)
    return 2 * (1 + 2 * 2) * error


def _correlation_time(rho: NDArray[np.float64], zero: float) -> float:
    """Return 1 + 2·Σ ρₖ, ended at the first pair of neighbours that is not above `zero`; at least 1."""
    pairs = rho[: len(rho) // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= zero)
    return max(1.0, float(2 * pairs[: ends[0] if len(ends) else len(pairs)].sum() - 1))


def median_interval(samples: Samples, confidence: float = CONFIDENCE, effective: float | None = None) -> Interval:
    """Return the order statistics [x₍k₎, x₍n+1−k₎], for the largest k whose interval has that confidence.

    The number of samples below the true median is binomial, B ~ Bin(n, ½), so the coverage is 1 − 2·P(B ≤ k−1) whatever
    the distribution (David & Nagaraja, "Order Statistics", 3rd ed., §7.1). Where even the extremes (k = 1) fall
    short of it, as with five samples or fewer at 0.95, they are returned with the coverage 1 − 2^(1−n).
    Samples that are worth fewer independent ones, by default their `effective_size`, have the coverage of so many, and
    the order statistics that stand as far from the middle, in shares of all ranks, times how much wider Student's t is
    than the normal distribution, because that size is estimated.
    """
    x = np.sort(_checked(samples))
    n = len(x)
    worth = effective_size(samples) if effective is None else min(effective, n)
    whole = floor(worth + ROUNDING)
    tail = bdtr(np.arange(whole // 2 + 1), whole, 0.5)  # P(B ≤ 0), P(B ≤ 1), …
    k = int(np.count_nonzero(tail <= (1 - confidence) / 2))
    coverage = max(0.0, float(1 - 2 * tail[max(k, 1) - 1]))
    if whole < n and k:
        from_middle = (0.5 - k / (whole + 1)) * _widening(whole - 1, confidence)
        k = floor((n + 1) * (0.5 - from_middle))
    k = max(1, k)
    return Interval(float(x[k - 1]), float(x[n - k]), coverage)


def _widening(freedom: float, confidence: float) -> float:
    """Return how many times wider Student's interval of so many degrees of freedom is than the normal one."""
    return student_quantile(freedom, confidence) / float(ndtri((1 + confidence) / 2))


def student_quantile(freedom: float, confidence: float = CONFIDENCE) -> float:
    """Return how many standard errors a two-sided interval of that confidence reaches by Student's t."""
    return float(stdtrit(freedom, (1 + confidence) / 2))


def ratio_error(parts: NDArray[np.float64], wholes: NDArray[np.float64]) -> float:
    """Return the standard error of Σ parts / Σ wholes, from two or more of either that were seen together.

    With d = part − ratio·whole of each of n, the variance is n/(n−1) · Σd² / (Σ wholes)² (Cochran, "Sampling
    Techniques", 3rd ed. (1977), §2.11 and §6.4).
    """
    count, total = len(parts), wholes.sum()
    apart = _apart(parts, wholes)
    return float(np.sqrt(count / (count - 1) * (apart @ apart)) / total)


def ratio_interval(parts: NDArray[np.float64], wholes: NDArray[np.float64]) -> Interval | None:
    """Return the interval of Σ parts / Σ wholes, of samples in the order measured that may depend on their neighbours.

    It is Student's, with as many degrees of freedom as there are independent samples less one (`effective_size` of what
    `ratio_error` squares, but two at least), and the error of so many. None of fewer than two samples, and where the
    wholes add up to nothing.
    """
    if len(parts) < 2 or wholes.sum() <= 0:
        return None
    independent = max(2.0, effective_size(_apart(parts, wholes)))
    error = ratio_error(parts, wholes) * (len(parts) / independent) ** 0.5
    ratio, reach = float(parts.sum() / wholes.sum()), student_quantile(independent - 1) * error
    return Interval(ratio - reach, ratio + reach, CONFIDENCE)


def _apart(parts: NDArray[np.float64], wholes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return by how much each part differs from what its whole makes expect."""
    return np.asarray(parts - parts.sum() / wholes.sum() * wholes)


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


def _checked(samples: Samples) -> NDArray[np.float64]:
    x = np.asarray(samples, dtype=np.float64)
    if x.ndim != 1 or x.size == 0 or not (np.isfinite(x) & (x > 0)).all():
        raise ValueError("samples must be at least one, positive and finite")
    return x
