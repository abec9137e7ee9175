"""Statistics of time samples, without assumptions on the shape of their distribution.

Samples are positive seconds, in the order measured. They are autocorrelated, since clocks, caches and other load change
more slowly than samples are taken; `effective_size` is the equivalent number of independent samples. Every interval is
based on that number and carries its actual coverage, which for few samples is below the requested one. Variation
between processes is estimated from repetitions only: `summarize_repetitions`.

SciPy has the quantiles, too, but its import takes longer than NumPy's, in every command and in every worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import cos, exp, floor, lgamma, log2, pi, sqrt, tan
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from accelbench.profiling.records.timing import Summary

Samples: TypeAlias = Sequence[float] | NDArray[np.float64]

CONFIDENCE = 0.95
TUKEY_FENCE = 1.5
VALID_SAMPLES = "the samples must be a sequence of at least one positive and finite number"
MOST_MISSING = 0.5
"""Largest share of the variance that the bias correction of the autocorrelations may add."""
ROUNDING = 1e-9
"""Tolerance for rounding when an effective size is rounded down to an integer."""
NODES, MOST_STEPS, PRECISION = 48, 50, 1e-12
"""Nodes of the integral in Student's distribution, and the end of Newton's method: steps, and a relative step."""


@dataclass(frozen=True)
class Interval:
    """Confidence interval with its coverage: the probability that it contains the true value."""

    low: float
    high: float
    confidence: float


@dataclass(frozen=True)
class Estimate(Interval):
    """Confidence interval with the point estimate inside it."""

    value: float


def summarize(samples: Samples) -> Summary:
    """Return the statistics of the samples. Raises ValueError unless there is at least one, and all are positive."""
    x = _checked(samples)
    effective = effective_size(x)
    return _summary(x, quartiles(x)[1], median_interval(x, effective=effective), effective)


def summarize_repetitions(repetitions: Sequence[Samples]) -> Summary:
    """Return the statistics of a point from the samples of each repetition; errors as of `summarize`.

    The median is the median of the repetitions' medians, with the interval of `interval_over_repetitions`. All other
    statistics are of all samples together. For a single repetition, the result equals `summarize`.
    """
    if len(repetitions) == 1:
        return summarize(repetitions[0])
    summaries = [summarize(samples) for samples in repetitions]
    if not summaries:
        raise ValueError(VALID_SAMPLES)
    found = interval_over_repetitions([(summary.median, summary.ci_low, summary.ci_high) for summary in summaries])
    x = np.concatenate([_checked(samples) for samples in repetitions])
    return _summary(x, found.value, found, sum(summary.effective or 0.0 for summary in summaries))


def interval_over_repetitions(repetitions: Sequence[tuple[float, float, float]]) -> Estimate:
    """Return the median of two or more repetitions with an interval that covers variation between processes.

    Each repetition is given by its value and the ends of its own interval. The interval is Student's t interval for the
    mean of the logarithms of the n values (n − 1 degrees of freedom), extended to contain the median. It is at least
    as wide as the repetitions' own intervals imply. With two repetitions its half-width is 12.7 standard errors.
    """
    values, low, high = np.log(repetitions).T
    count, median = len(values), float(np.median([value for value, _, _ in repetitions]))
    between = student_quantile(count - 1) * values.std(ddof=1)
    within = np.sqrt(np.mean(np.square((high - low) / 2)))
    half = max(between, within) / count**0.5
    ends = [float(np.exp(values.mean() + side * half)) for side in (-1, 1)]
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
    """Return first quartile, median and third quartile, with linear interpolation between order statistics.

    Definition 7 of Hyndman & Fan, "Sample quantiles in statistical packages", The American Statistician 50 (1996).
    """
    q1, median, q3 = np.quantile(_checked(samples), (0.25, 0.5, 0.75))
    return float(q1), float(median), float(q3)


def effective_size(samples: Samples) -> float:
    """Return the effective sample size for the median: the equivalent number of independent samples, 1 to n.

    It is n / τ with τ = 1 + 2·Σ ρₖ over the autocorrelations of the ranks, summed by pairs of neighbours up to the
    first pair that is not positive (Geyer, "Practical Markov chain Monte Carlo", Statistical Science 7 (1992), §3.3).
    Because the sample mean is used, the ρₖ are too low by about (1 − ρₖ)·τ/n; this bias is corrected once. Samples may
    be any finite numbers. Raises ValueError for no sample or one that is not finite.
    """
    x = np.asarray(samples, dtype=np.float64)
    if x.ndim != 1 or x.size == 0 or not np.isfinite(x).all():
        raise ValueError("the samples must be a sequence of at least one finite number")
    n = len(x)
    _, places, counts = np.unique(x, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places] - (n + 1) / 2
    if not ranks.any():
        return float(n)
    size = 1 << (2 * n - 1).bit_length()  # zero padding, so that the correlation is not circular
    covariance = np.fft.irfft(np.abs(np.fft.rfft(ranks, size)) ** 2, size)[:n]
    rho = covariance / covariance[0]
    zero = _rounding_of_pairs(size)
    missing = min(MOST_MISSING, _correlation_time(rho, zero) / n)
    tau = _correlation_time((1 - missing) * rho + missing * (1 - np.arange(n) / n), zero)
    return float(n / min(n, tau))


def _rounding_of_pairs(size: int) -> float:
    """Return a bound of the rounding error of a pair of autocorrelations computed by FFTs of `size` points.

    Ranks have many pairs that are exactly zero; without a tolerance, rounding decides whether the sum ends there.
    One FFT has the relative error e = 7·u·log₂(size) in the 2-norm (Higham, "Accuracy and Stability of Numerical
    Algorithms", 2nd ed., theorem 24.2, with u the unit roundoff). It enters the power spectrum twice, and the inverse
    FFT adds e times the 2-norm of the covariances, at most √size·c₀. So the error of ρₖ is at most (2 + √size)·e. The
    bias correction adds a share of variance that is 1/n of the sum of n ρₖ, twice: 2 more of these errors, times
    |1 − k/n − ρₖ| ≤ 2.
    """
    unit_roundoff = float(np.finfo(np.float64).eps) / 2
    error = (2 + sqrt(size)) * 7 * unit_roundoff * log2(size)
    return 2 * (1 + 2 * 2) * error


def _correlation_time(rho: NDArray[np.float64], zero: float) -> float:
    """Return 1 + 2·Σ ρₖ up to the first pair of neighbours that is not above `zero`; at least 1."""
    pairs = rho[: len(rho) // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= zero)
    return max(1.0, float(2 * pairs[: ends[0] if len(ends) else len(pairs)].sum() - 1))


def median_interval(samples: Samples, confidence: float = CONFIDENCE, effective: float | None = None) -> Interval:
    """Return a confidence interval of the median: the order statistics [x₍k₎, x₍n+1−k₎] for the largest sufficient k.

    The number of samples below the true median is binomial, B ~ Bin(n, ½), so the coverage is 1 − 2·P(B ≤ k−1) for
    every distribution (David & Nagaraja, "Order Statistics", 3rd ed., §7.1). If even the extremes (k = 1) have less
    than the requested confidence, as five samples or fewer at 0.95, they are returned with the coverage 1 − 2^(1−n).

    For dependent samples, k and the coverage follow from `effective` samples, by default `effective_size`. The distance
    of k from the middle, as a share of the ranks, is then scaled to n samples and widened by the ratio of Student's t
    quantile to the normal one, because the effective size is an estimate.
    """
    x = np.sort(_checked(samples))
    n = len(x)
    worth = effective_size(samples) if effective is None else min(effective, n)
    whole = floor(worth + ROUNDING)
    tail = _binomial_tail(whole)
    k = int(np.count_nonzero(tail <= (1 - confidence) / 2))
    coverage = max(0.0, float(1 - 2 * tail[max(k, 1) - 1]))
    if whole < n and k:
        from_middle = (0.5 - k / (whole + 1)) * _widening(whole - 1, confidence)
        k = floor((n + 1) * (0.5 - from_middle))
    k = max(1, k)
    return Interval(float(x[k - 1]), float(x[n - k]), coverage)


def _binomial_tail(count: int) -> NDArray[np.float64]:
    """Return P(B ≤ 0), P(B ≤ 1), … up to P(B ≤ n/2) for B ~ Bin(n, ½)."""
    k = np.arange(1, count // 2 + 1)
    coefficients = np.concatenate([[0.0], np.cumsum(np.log2((count + 1 - k) / k))])  # their logarithms
    return np.asarray(np.cumsum(np.exp2(coefficients - count)))


def _widening(freedom: float, confidence: float) -> float:
    """Return the ratio of Student's t quantile with `freedom` degrees of freedom to the normal quantile."""
    return student_quantile(freedom, confidence) / NormalDist().inv_cdf((1 + confidence) / 2)


@cache
def student_quantile(freedom: float, confidence: float = CONFIDENCE) -> float:
    """Return the half-width of a two-sided Student's t interval, in standard errors, for ν ≥ 1 degrees of freedom.

    With tan θ = t/√ν, the probability inside ±t is c·∫₀^θ cos^(ν−1) φ dφ with c = 2·Γ((ν+1)/2) / (√π·Γ(ν/2)). Newton's
    method from θ = 0 converges from below, because the integral is concave in θ. The integral is a Gauss-Legendre sum.
    """
    nodes, weights = _gauss_legendre()
    scale = 2 * exp(lgamma((freedom + 1) / 2) - lgamma(freedom / 2)) / sqrt(pi)
    angle = 0.0
    for _ in range(MOST_STEPS):
        inside = scale * angle * float(weights @ np.cos(angle * nodes) ** (freedom - 1))
        step = (confidence - inside) / (scale * cos(angle) ** (freedom - 1))
        angle += step
        if step <= PRECISION * angle:
            break
    return sqrt(freedom) * tan(angle)


@cache
def _gauss_legendre() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes and weights for integrals from 0 to 1."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return (nodes + 1) / 2, weights / 2


def ratio_error(parts: NDArray[np.float64], wholes: NDArray[np.float64]) -> float:
    """Return the standard error of Σ parts / Σ wholes, from n ≥ 2 pairs of part and whole.

    With d = part − ratio·whole of each pair, the variance is n/(n−1) · Σd² / (Σ wholes)² (Cochran, "Sampling
    Techniques", 3rd ed. (1977), §2.11 and §6.4).
    """
    count, total = len(parts), wholes.sum()
    residuals = _residuals(parts, wholes)
    return float(np.sqrt(count / (count - 1) * (residuals @ residuals)) / total)


def ratio_interval(parts: NDArray[np.float64], wholes: NDArray[np.float64]) -> Interval | None:
    """Return a confidence interval of Σ parts / Σ wholes for autocorrelated samples in the order measured.

    It is a Student's t interval. The number of independent samples is the `effective_size` of the residuals, at least
    2; it determines the standard error and the degrees of freedom. Returns None for fewer than two samples, or if the
    wholes add up to zero.
    """
    if len(parts) < 2 or wholes.sum() <= 0:
        return None
    independent = max(2.0, effective_size(_residuals(parts, wholes)))
    error = ratio_error(parts, wholes) * (len(parts) / independent) ** 0.5
    ratio, reach = float(parts.sum() / wholes.sum()), student_quantile(independent - 1) * error
    return Interval(ratio - reach, ratio + reach, CONFIDENCE)


def _residuals(parts: NDArray[np.float64], wholes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return part − ratio·whole of each pair."""
    return np.asarray(parts - parts.sum() / wholes.sum() * wholes)


def relative_stdev(samples: Samples) -> float:
    """Return the standard deviation (n − 1 in the denominator) ÷ mean; 0 for a single sample."""
    x = _checked(samples)
    return float(x.std(ddof=1) / x.mean()) if len(x) > 1 else 0.0


def tukey_outliers(samples: Samples) -> int:
    """Return the number of samples more than 1.5 interquartile ranges outside the quartiles.

    Tukey, "Exploratory Data Analysis" (1977), §2C: the inner fences.
    """
    x = _checked(samples)
    q1, _, q3 = quartiles(x)
    fence = TUKEY_FENCE * (q3 - q1)
    return int(np.count_nonzero((x < q1 - fence) | (x > q3 + fence)))


def _checked(samples: Samples) -> NDArray[np.float64]:
    x = np.asarray(samples, dtype=np.float64)
    if x.ndim != 1 or x.size == 0 or not (np.isfinite(x) & (x > 0)).all():
        raise ValueError(VALID_SAMPLES)
    return x
