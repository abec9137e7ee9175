"""The spread from run to run: robust estimates of a standard deviation, which single odd runs do not change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

NORMAL_QUARTILE = 0.6745
"""The upper quartile of the standard normal distribution: the median absolute deviation of one whose deviation is 1."""
SMALL_SETS = {2: 1.196, 3: 1.495, 4: 1.363, 5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}
"""The factors that make the median absolute deviation of so few figures unbiased.

Source: Croux & Rousseeuw, "Time-efficient algorithms for two highly robust estimators of scale", Computational
Statistics (1992), which gives n ÷ (n − 0.8) for more.
"""
EFFICIENCY = 0.37
"""The share of the figures' information on their deviation that the median absolute deviation uses."""
LEAST_RUNS = 5
"""The fewest runs that say what is normal."""


@dataclass(frozen=True)
class Spread:
    """The standard deviation of a point's logarithm of speed between runs of one machine."""

    deviation: float
    """The standard deviation: 0.02 is about 2 %."""
    freedom: float
    """The degrees of freedom of that estimate."""
    runs: int
    """The number of runs that it stands on."""


def spread_of_levels(levels: Sequence[Sequence[float]]) -> Spread | None:
    """Return the spread of logarithms around the medians of their levels; None for fewer runs than `LEAST_RUNS`."""
    runs = sum(len(level) for level in levels)
    if runs < LEAST_RUNS:
        return None
    residuals = np.concatenate([np.asarray(level) - np.median(level) for level in levels])
    independent = runs - len(levels) + 1
    factor = SMALL_SETS.get(independent, independent / (independent - 0.8))
    deviation = factor * float(np.median(np.abs(residuals))) / NORMAL_QUARTILE
    return Spread(deviation, max(1.0, EFFICIENCY * (independent - 1)), runs)


def spread_of_neighbours(figures: ArrayLike) -> float:
    """Return the standard deviation by the steps between neighbours, which few changes of the level hardly widen."""
    return float(np.median(np.abs(np.diff(np.asarray(figures))))) / (NORMAL_QUARTILE * 2**0.5)
