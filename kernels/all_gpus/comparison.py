"""Comparison of GPUs by their rates when all do the same work concurrently."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from accelbench.profiling.records.quality import Metric

OUTLIER = 0.05
"""Outlier threshold: the relative slowdown of a GPU compared with the median of the others.

GPUs of one model vary by 8 % on average over whole clusters (Sinha et al., "Not All GPUs Are Created Equal", SC22),
because of differences in power draw and cooling. That is about ±4 % around the median, so 5 % exceeds the usual
variation. gpu-fryer fails a GPU at 10 % below the best.
"""
FEWEST = 3
"""Minimum number of GPUs for outlier detection: of two that differ, either may be the outlier."""


def outliers(rates: Mapping[str, float]) -> dict[str, float]:
    """Return the outliers by name, each with its relative slowdown compared with the median of the other GPUs."""
    if len(rates) < FEWEST:
        return {}
    behind = {
        card: 1 - rate / median(other for name, other in rates.items() if name != card) for card, rate in rates.items()
    }
    return {card: share for card, share in behind.items() if share > OUTLIER}


def compare(rates: Mapping[str, float], unit: str) -> dict[str, Metric]:
    """Return metrics from the rates by GPU: outliers first, then the spread, then the rate of every GPU.

    The value of an outlier is its slowdown in percent, compared with the median of the other GPUs.
    """
    cards = {card: Metric(rate, unit) for card, rate in rates.items()}
    if len(rates) == 1:
        return {"cards (one, so there is nothing to compare)": Metric(1)} | cards
    slowest, fastest = min(rates.values()), max(rates.values())
    found = {f"outlier: {card}, slower by": Metric(100 * share, "%") for card, share in outliers(rates).items()}
    return found | {
        "cards": Metric(len(rates)),
        "slowest card": Metric(slowest, unit),
        "median card": Metric(median(rates.values()), unit),
        "fastest card": Metric(fastest, unit),
        "spread, fastest over slowest": Metric(100 * (fastest / slowest - 1), "%"),
        **cards,
    }
