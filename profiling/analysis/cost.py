"""The cost of a point: the seconds that one unit of its work takes, which is what runs are compared by.

Whatever else a machine does makes samples slower and none faster. So what the host's clock has timed is compared by its
fastest samples, which have waited for others least: the figures of a record are medians, and say what to expect. On a
shared virtual machine, of 24 runs of the same code, the medians of counting in the interpreter had a standard deviation
of 18 %, and the fastest samples of 3 %; of a product of matrices 7 and 5 %, of arrays beyond the caches 9 % both. The
steps of a training, whose input may come in bursts, and what NVBench times stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite

import numpy as np

from accelbench.profiling.records.record import Record
from accelbench.profiling.records.timing import Timing
from accelbench.profiling.records.work import Figure

FASTEST = 0.05
"""The quantile of the samples by which they are compared: the least of all depends on how many there are."""


def cost(record: Record, figure: Figure | None = None) -> float | None:
    """Return the seconds per flop, byte or item of a measured record; of a time, the seconds per item or execution.

    They are those of its fastest samples (`fastest`). None for a record that was not measured or does not know its
    work, and where a sample is no duration.
    """
    if execution_seconds(record) is None:
        return None
    found = record.rate(figure)
    if not found or not isfinite(found):
        return None
    assert record.timing is not None
    whole = found if (figure or record.figure) == "time" else 1 / found
    return whole * fastest(record.timing) / record.timing.execution.seconds


def execution_seconds(record: Record) -> float | None:
    """Return the seconds of one execution; None where there is no sample, or one that is no duration."""
    if record.timing is None or not record.timing.samples or not all(0 < s < inf for s in record.timing.samples):
        return None
    return fastest(record.timing)


def fastest(timing: Timing) -> float:
    """Return the seconds of one execution by the fastest samples, those of all rounds together."""
    return _fastest(timing.samples) if by_fastest(timing) else timing.execution.seconds


def by_fastest(timing: Timing) -> bool:
    """Tell whether it is compared by its fastest samples."""
    return timing.timer == "host"


def costs_of_rounds(record: Record, whole: float) -> list[float]:
    """Return the cost of each round of a record that costs so much as a whole; none where it has one round only."""
    timing = record.timing
    if timing is None or not record.rounds:
        return []
    if by_fastest(timing):
        ends = np.cumsum([part.count for part in record.rounds])[:-1]
        seconds = [_fastest(samples) for samples in np.split(np.asarray(timing.samples), ends)]
    else:
        # The blocks of a training in rounds are its rounds.
        seconds = timing.costs if timing.steady else [part.summary.median for part in record.rounds]
    return [whole * each / fastest(timing) for each in seconds]


def _fastest(samples: Sequence[float] | np.ndarray) -> float:
    return float(np.quantile(samples, FASTEST))
