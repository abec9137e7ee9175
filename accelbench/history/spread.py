"""Spread between runs: robust estimates of a standard deviation, which single outliers do not change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

NORMAL_QUARTILE = 0.6745
"""Upper quartile, and therefore median absolute deviation, of the standard normal distribution."""
SMALL_SETS = {2: 1.196, 3: 1.495, 4: 1.363, 5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}
"""Factors that correct the bias of the median absolute deviation, by the number of values.

Source: Croux & Rousseeuw, "Time-efficient algorithms for two highly robust estimators of scale", Computational
Statistics (1992); n ÷ (n − 0.8) for more values.
"""
EFFICIENCY = 0.37
"""Statistical efficiency of the median absolute deviation as an estimator of the standard deviation."""
LEAST_RUNS = 5
"""Minimum number of runs for an estimate of the spread."""


@dataclass(frozen=True)
class Spread:
    """Standard deviation of the logarithm of a point's speed between runs of one machine."""

    deviation: float
    """Standard deviation: 0.02 is about 2 %."""
    freedom: float
    """Degrees of freedom of the estimate."""
    runs: int
    """Number of runs in the estimate."""


def spread_of_levels(levels: Sequence[Sequence[float]]) -> Spread | None:
    """Return the spread of logarithms around the medians of their levels; None with fewer than `LEAST_RUNS` values."""
    runs = sum(len(level) for level in levels)
    if runs < LEAST_RUNS:
        return None
    residuals = np.concatenate([np.asarray(level) - np.median(level) for level in levels])
    independent = runs - len(levels) + 1
    deviation = small_set_factor(independent) * float(np.median(np.abs(residuals))) / NORMAL_QUARTILE
    return Spread(deviation, max(1.0, EFFICIENCY * (independent - 1)), runs)


def robust_deviation(values: Sequence[float]) -> float | None:
    """Return the standard deviation estimated from the median absolute deviation; None for a single value."""
    count = len(values)
    if count < 2:
        return None
    x = np.asarray(values, dtype=np.float64)
    return small_set_factor(count) * float(np.median(np.abs(x - np.median(x)))) / NORMAL_QUARTILE


def small_set_factor(count: int) -> float:
    """Return the factor that corrects the bias of the median absolute deviation of this number of values."""
    return SMALL_SETS.get(count, count / (count - 0.8))


def spread_of_neighbours(figures: ArrayLike) -> float:
    """Return the standard deviation estimated from the steps between neighbours, robust to level changes."""
    return float(np.median(np.abs(np.diff(np.asarray(figures))))) / (NORMAL_QUARTILE * 2**0.5)
