"""Overhead of py-spy on the sampled steps.

Windows are compared by their mean, not their median: a profiler that stops the process ten times a second does not
slow most steps down.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accelbench.profiling.records.host import SamplingOverhead, Window
from accelbench.profiling.timing.statistics import median_interval


def step_overhead(step_ends_s: Sequence[float], windows: Sequence[Window]) -> SamplingOverhead | None:
    """Return the overhead of py-spy on the sampled training: step times in each window compared with those after it.

    `step_ends_s` are times of `time.perf_counter`, as those of the windows are; a NaN separates intervals that are not
    steps. Returns None if no window has complete steps both inside and after it.
    """
    ends = np.asarray(step_ends_s)
    begins, durations = ends[:-1], np.diff(ends)
    factors = []
    for number, window in enumerate(windows):
        rest_end = windows[number + 1].begin_s if number + 1 < len(windows) else np.inf
        inside = durations[(begins >= window.begin_s) & (ends[1:] <= window.end_s)]
        outside = durations[(begins >= window.end_s) & (ends[1:] <= rest_end)]
        if len(inside) and len(outside):
            factors.append(float(inside.mean() / outside.mean()))
    return summarized(factors) if factors else None


def summarized(factors: Sequence[float]) -> SamplingOverhead:
    """Return the median and its interval of these ratios of the time with a probe to the time without."""
    interval = median_interval(factors)
    return SamplingOverhead(
        factor=float(np.median(factors)),
        low=interval.low,
        high=interval.high,
        confidence=interval.confidence,
        pairs=len(factors),
    )
