"""Decision which of several ranks is slow, and in which part of a step.

The steps of all ranks take equally long, because the ranks wait for each other in the exchange of gradients. The parts
before the exchange do not wait, so each rank is compared with the others in each part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelbench.profiling.timing.statistics import student_quantile

PARTS = ("input", "forward", "backward", "optimizer")
"""Parts of a step before the exchange of gradients, or after it."""
FEWEST_STEPS = 40
"""Smallest number of steps for a comparison."""
BLOCKS = 20
"""Number of blocks of consecutive steps. Interruptions hardly change their medians, and their spread includes the
correlation of successive steps."""
ERROR = 0.05
"""Probability to name a rank if none is slow, over all ranks and parts."""
USUAL = 0.01
"""Difference between the same part of equally fast ranks that is not reported, as a share of the part."""
RELEVANT = 0.005
"""Smallest reported delay, as a share of a step."""

Times = Mapping[int, Mapping[str, Sequence[float]]]
"""Seconds of each part in each step, by rank."""


@dataclass(frozen=True)
class Delay:
    """Delay of one rank in one part of a step, compared with the other ranks."""

    rank: int
    part: str
    seconds: float
    """The additional seconds per step."""
    low: float
    high: float
    """The 95 % interval of `seconds`."""
    relative: float
    """`seconds` ÷ the seconds of the part in the other ranks."""


def slow_rank(times: Times, step_s: float) -> Delay | None:
    """Return the largest significant delay of a rank, for steps of `step_s` seconds; None if no rank is slow.

    Each part has the same number of seconds in all ranks that have it, of the same steps: what slows all ranks at the
    same time is no difference between them.
    """
    found = [delay for part in PARTS for delay in _delays(part, times, step_s)]
    return max(found, key=lambda delay: delay.seconds, default=None)


def _delays(part: str, times: Times, step_s: float) -> list[Delay]:
    ranks = [rank for rank, parts in times.items() if len(parts.get(part, ())) >= FEWEST_STEPS]
    if len(ranks) < 2:
        return []
    medians = np.array([_block_medians(times[rank][part]) for rank in ranks])
    # The quantile is two-sided, and only delays count.
    critical = student_quantile(BLOCKS - 1, 1 - 2 * ERROR / (len(PARTS) * len(ranks)))
    found = []
    for index, rank in enumerate(ranks):
        others = np.median(np.delete(medians, index, axis=0), axis=0)
        differences, usual = medians[index] - others, float(others.mean())
        seconds, error = float(differences.mean()), float(differences.std(ddof=1) / np.sqrt(BLOCKS))
        if seconds - critical * error > USUAL * usual and seconds > RELEVANT * step_s:
            half = student_quantile(BLOCKS - 1) * error
            found.append(Delay(rank, part, seconds, seconds - half, seconds + half, seconds / usual))
    return found


def _block_medians(seconds: Sequence[float]) -> NDArray[np.float64]:
    length = len(seconds) // BLOCKS
    return np.asarray(np.median(np.array(seconds[-BLOCKS * length :]).reshape(BLOCKS, length), axis=1))
