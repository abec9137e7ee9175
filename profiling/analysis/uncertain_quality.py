"""Confidence interval of a quality that was measured on a given number of held-out examples."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist

from accelbench.profiling.records.quality import Quality
from accelbench.profiling.records.record import Record

CONFIDENCE = 0.95


def quality_interval(record: Record, quality: Quality, value: float | None = None) -> tuple[float, float] | None:
    """Return the ends of a quality's 95 % interval; None if the quality is not a share of the held-out examples.

    `value` is the quality, by default the record's; it may be the mean of several runs with as many held-out examples.
    The interval covers the choice of independent examples. It covers neither dependence between examples (several of
    one person, for instance) nor the variation between training runs.
    """
    if value is None and quality.name in record.metrics:
        value = record.metrics[quality.name].value
    count = record.data.held_out if record.data else 0
    if quality.of != "examples" or value is None or count < 1 or not 0 <= value <= 1:
        return None
    return wilson(value, count)


def wilson(share: float, count: int) -> tuple[float, float]:
    """Return the 95 % score interval of a binomial share, which is also valid near 0 and 1 and for few examples.

    E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", JASA 22 (1927).
    """
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    shrink = 1 + z * z / count
    middle = (share + z * z / (2 * count)) / shrink
    half = z / shrink * sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return max(0.0, middle - half), min(1.0, middle + half)
