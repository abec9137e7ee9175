"""Comparison of GPUs by their rates at the same work at the same time."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from accelbench.profiling.records.quality import Metric

OUTLIER = 0.05
"""A card is an outlier where it is slower than the median of the others by more than this share.

Cards of one model vary by 8 % on average over whole clusters (Sinha et al., "Not All GPUs Are Created Equal", SC22),
because their silicon draws different power and they are cooled differently. That is some 4 % to either side of the
median, so 5 % is more than cards usually differ. gpu-fryer fails a card at 10 % below the best.
"""
FEWEST = 3
"""The fewest cards among which an outlier is named: of two that differ either may be the slow one."""


def outliers(rates: Mapping[str, float]) -> dict[str, float]:
    """Return the cards slower than the others, with the share by which each is below the median of the others."""
    if len(rates) < FEWEST:
        return {}
    behind = {
        card: 1 - rate / median(other for name, other in rates.items() if name != card) for card, rate in rates.items()
    }
    return {card: share for card, share in behind.items() if share > OUTLIER}


def compare(rates: Mapping[str, float], unit: str) -> dict[str, Metric]:
    """Return the rates of cards by name as metrics: outliers first, then the spread, then every card's own rate.

    An outlier's share is that by which it is slower than the median of the others.
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
