"""Steady steps of a training workload in total: mean, and its interval from blocks of steps.

Input that arrives in bursts makes most steps short and a few long. The median is then a short step, so that the
throughput follows from the total time only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accelbench.profiling.records.timing import Block, SteadySteps
from accelbench.profiling.timing.statistics import CONFIDENCE, over_rounds, ratio_error, student_quantile

ENOUGH_EPOCHS = 8
"""The number of epochs from which each is a block; of fewer the steps are cut into `BLOCKS`."""
BLOCKS = 12
"""The number of blocks of steps: enough for an interval, and each long beside what couples one step to the next."""


def steady_steps(epochs: Sequence[Sequence[float]]) -> SteadySteps:
    """Return the total of the steps' seconds, given epoch by epoch; ValueError where there is no step."""
    return of_blocks(cut_into_blocks(epochs))


def cut_into_blocks(epochs: Sequence[Sequence[float]]) -> list[Block]:
    """Return the epochs as blocks, or of few epochs `BLOCKS` stretches of as many steps as near as can be."""
    told = [np.asarray(epoch) for epoch in epochs if len(epoch)]
    if 0 < len(told) < ENOUGH_EPOCHS:
        steps = np.concatenate(told)
        told = np.array_split(steps, min(BLOCKS, len(steps)))
    return [Block(steps=len(block), seconds=float(block.sum())) for block in told]


def join_rounds(rounds: Sequence[SteadySteps]) -> SteadySteps:
    """Return the steady steps of several rounds, each a block, whose interval covers what differs between processes.

    All rounds weigh the same, however many steps they took. A single round stays as it is.
    """
    if len(rounds) == 1:
        return rounds[0]
    found = over_rounds([(one.mean, one.ci_low, one.ci_high) for one in rounds])
    return SteadySteps(
        steps=sum(one.steps for one in rounds),
        seconds=sum(one.seconds for one in rounds),
        mean=found.value,
        ci_low=found.low,
        ci_high=found.high,
        ci_confidence=found.confidence,
        blocks=[Block(steps=one.steps, seconds=one.seconds) for one in rounds],
    )


def of_blocks(blocks: Sequence[Block]) -> SteadySteps:
    """Return the mean seconds per step over all blocks, with its interval; ValueError where there is no block.

    The mean is a ratio of totals. Its interval is that of Student's t with one degree of freedom less than there are
    blocks, on the logarithm, so that no end of it is negative. One block has no spread: its interval is the mean
    itself, with the confidence 0.
    """
    if not blocks:
        raise ValueError("no steady step was taken")
    steps, seconds = (np.array([getattr(block, name) for block in blocks]) for name in ("steps", "seconds"))
    count, mean = len(blocks), float(seconds.sum() / steps.sum())
    half, confidence = 0.0, 0.0
    if count > 1:
        half, confidence = student_quantile(count - 1) * ratio_error(seconds, steps) / mean, CONFIDENCE
    return SteadySteps(
        steps=int(steps.sum()),
        seconds=float(seconds.sum()),
        mean=mean,
        ci_low=float(mean * np.exp(-half)),
        ci_high=float(mean * np.exp(half)),
        ci_confidence=confidence,
        blocks=list(blocks),
    )
