"""The steady steps of a training in total: their mean, and its interval from blocks that differ less than steps do.

Input that comes in bursts makes most steps short and a few long. Their median is that of a short one, so that only the
total time says what the training achieves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import stdtrit

from profiling.records.timing import Block, SteadySteps
from profiling.timing.statistics import CONFIDENCE

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


def over_rounds(rounds: Sequence[SteadySteps]) -> SteadySteps:
    """Return the total over several rounds: each round is a block, so that the interval covers what differs by process.

    It is never narrower than what the steps within the rounds leave open, which few rounds that happen to agree would
    hide. A single round stays as it is.
    """
    if len(rounds) == 1:
        return rounds[0]
    joined = of_blocks([Block(steps=one.steps, seconds=one.seconds) for one in rounds])
    within = [np.log(one.ci_high / one.ci_low) / 2 for one in rounds]
    widest = max(np.log(joined.ci_high / joined.mean), np.sqrt(np.mean(np.square(within)) / len(rounds)))
    ends = {"ci_low": float(joined.mean * np.exp(-widest)), "ci_high": float(joined.mean * np.exp(widest))}
    return joined.model_copy(update=ends)


def of_blocks(blocks: Sequence[Block]) -> SteadySteps:
    """Return the mean seconds per step over all blocks, with its interval; ValueError where there is no block.

    The mean m is a ratio of totals. With d = (seconds − m·steps) of each of B blocks, its variance is
    B/(B−1) · Σd² / (Σ steps)² (Cochran, "Sampling Techniques", 3rd ed. (1977), §2.11), and the interval is that of
    Student's t with B − 1 degrees of freedom, on the logarithm, so that no end of it is negative. One block has no
    spread: its interval is the mean itself, with the confidence 0.
    """
    if not blocks:
        raise ValueError("no steady step was taken")
    steps, seconds = (np.array([getattr(block, name) for block in blocks]) for name in ("steps", "seconds"))
    count, mean = len(blocks), float(seconds.sum() / steps.sum())
    half, confidence = 0.0, 0.0
    if count > 1:
        error = np.sqrt(count / (count - 1) * np.sum((seconds - mean * steps) ** 2)) / steps.sum()
        half, confidence = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2) * error / mean), CONFIDENCE
    return SteadySteps(
        steps=int(steps.sum()),
        seconds=float(seconds.sum()),
        ci_low=float(mean * np.exp(-half)),
        ci_high=float(mean * np.exp(half)),
        ci_confidence=confidence,
        blocks=list(blocks),
    )
