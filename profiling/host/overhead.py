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
    """Return the cost of py-spy to the very training it watched: each window against the rest after it.

    `step_ends_s` are on the same clock as the windows, `time.perf_counter`, with NaN wherever what followed was no
    step. None if no window has whole steps on both sides.
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
    """Return the cost by these ratios of work with a probe to work without: their median and its interval."""
    interval = median_interval(factors)
    return SamplingOverhead(
        factor=float(np.median(factors)),
        low=interval.low,
        high=interval.high,
        confidence=interval.confidence,
        pairs=len(factors),
    )
