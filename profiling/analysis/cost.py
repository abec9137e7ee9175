"""Cost of a point: the seconds per unit of work, by which runs are compared.

Other load on a machine makes samples slower and never faster. Points timed by the host's clock are therefore compared
by their fastest samples, while the reported results are medians. In 24 runs of the same code on a shared virtual
machine, the standard deviation of medians and of fastest samples was 18 % and 3 % for counting in the Python
interpreter, 7 % and 5 % for a matrix product, and 9 % for both with arrays larger than the caches. Training workloads
and points timed by NVBench are compared by the reported time per execution, since training input may come in bursts.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite
from statistics import median

import numpy as np

from accelbench.profiling.records.record import Record
from accelbench.profiling.records.timing import Timing
from accelbench.profiling.records.work import MainMetric

FASTEST = 0.05
"""The quantile of the samples by which points are compared; the minimum would depend on the number of samples."""


def cost(record: Record, metric: MainMetric | None = None) -> float | None:
    """Return the seconds per flop, byte or item of a record; for `time`, the seconds per item or execution.

    The time is `execution_seconds`. Returns None without a measurement, for unknown work, and for samples that are not
    positive and finite.
    """
    seconds = execution_seconds(record)
    found = record.rate(metric) if seconds is not None else None
    if seconds is None or not found or not isfinite(found):
        return None
    assert record.timing is not None
    whole = found if (metric or record.figure) == "time" else 1 / found
    return whole * seconds / record.timing.execution.seconds


def execution_seconds(record: Record) -> float | None:
    """Return the time per execution; None unless all samples are positive and finite, and at least one.

    It is the median over the repetitions of their fastest samples, or the reported time (see `by_fastest`). Noisy
    repetitions are left out if there are others.
    """
    timing = record.timing
    if timing is None or not timing.samples or not all(0 < s < inf for s in timing.samples):
        return None
    if not by_fastest(timing):
        return timing.execution.seconds
    return median(process_seconds(record, timing))


def by_fastest(timing: Timing) -> bool:
    """Return whether the point is compared by its fastest samples."""
    return timing.timer == "host"


def costs_of_processes(record: Record, whole: float) -> list[float]:
    """Return the cost of each process of a record, given the cost of the whole record (see `process_seconds`)."""
    assert record.timing is not None
    seconds = execution_seconds(record)
    return [whole * each / seconds for each in process_seconds(record, record.timing)] if seconds else []


def process_seconds(record: Record, timing: Timing) -> list[float]:
    """Return the time per execution in each process of a record.

    Bounds are left out if there are estimates, and noisy repetitions if there are others.
    """
    parts = record.rounds
    if not parts:
        return [_fastest(timing.costs) if by_fastest(timing) else timing.execution.seconds]
    if by_fastest(timing):
        parts = [part for part in parts if not part.upper_bound] or parts
        seconds = [_fastest(used) for used in timing.used_by_repetition([part.count for part in record.rounds])]
    else:
        # In a joined record of training, each repetition is a block.
        seconds = timing.costs if timing.steady else [part.summary.median for part in parts]
    quiet = [each for each, part in zip(seconds, parts, strict=True) if not part.noise]
    return quiet or list(seconds)


def _fastest(samples: Sequence[float] | np.ndarray) -> float:
    return float(np.quantile(samples, FASTEST))
