"""Steady steps of a training workload: their mean, and its confidence interval from blocks of steps.

Input that arrives in bursts makes most steps short and a few long. The median is then a short step, so the throughput
is computed from the total time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accelbench.profiling.records.timing import Block, SteadySteps
from accelbench.profiling.timing.statistics import (
    CONFIDENCE,
    interval_over_repetitions,
    ratio_error,
    student_quantile,
)

ENOUGH_EPOCHS = 8
"""The number of epochs from which each epoch is a block; the steps of fewer epochs are divided into `BLOCKS` blocks."""
BLOCKS = 12
"""The number of blocks: enough for an interval, and few enough that a block is much longer than the autocorrelation."""


def steady_steps(epochs: Sequence[Sequence[float]]) -> SteadySteps:
    """Return the total of the steady steps, given their seconds by epoch. Raises ValueError without a step."""
    return of_blocks(cut_into_blocks(epochs))


def cut_into_blocks(epochs: Sequence[Sequence[float]]) -> list[Block]:
    """Return each epoch as a block, or `BLOCKS` blocks of nearly equal numbers of steps for few epochs."""
    parts = [np.asarray(epoch) for epoch in epochs if len(epoch)]
    if 0 < len(parts) < ENOUGH_EPOCHS:
        steps = np.concatenate(parts)
        parts = np.array_split(steps, min(BLOCKS, len(steps)))
    return [Block(steps=len(block), seconds=float(block.sum())) for block in parts]


def steady_of_chosen(
    epochs: Sequence[Sequence[float]], turns: Sequence[bool], chosen: Sequence[tuple[int, int]]
) -> SteadySteps:
    """Return the steady steps of the `chosen` ranges of all steps; `turns` are the epochs that begin with a boundary.

    A block with a long epoch boundary is longer and therefore more often disturbed. So that the boundaries keep their
    share of the time, the mean boundary (of the chosen boundaries, or of all if none was chosen) is distributed over
    the chosen steps. Without a chosen step within an epoch, the result is of all steps.
    """
    is_chosen = np.zeros(sum(map(len, epochs)), bool)
    for first, end in chosen:
        is_chosen[first:end] = True
    within: list[list[float]] = []
    boundaries, chosen_boundaries, begin = list[float](), list[float](), 0
    for epoch, has_turn in zip(epochs, turns, strict=True):
        mask = is_chosen[begin : begin + len(epoch)]
        begin += len(epoch)
        if has_turn and len(epoch):
            boundaries.append(epoch[0])
            chosen_boundaries += [epoch[0]] * bool(mask[0])
        within.append([step for step, used in zip(epoch[has_turn:], mask[has_turn:], strict=True) if used])
    if not any(within):
        return steady_steps(epochs)
    ratio = len(boundaries) / (len(is_chosen) - len(boundaries))
    each = float(np.mean(chosen_boundaries or boundaries)) if boundaries else 0.0
    return steady_steps([[(step + ratio * each) / (1 + ratio) for step in epoch] for epoch in within])


def join_repetitions(repetitions: Sequence[SteadySteps]) -> SteadySteps:
    """Return the steady steps of several repetitions, each as one block.

    The interval covers variation between processes. All repetitions have the same weight, independent of their number
    of steps. A single repetition is returned unchanged.
    """
    if len(repetitions) == 1:
        return repetitions[0]
    found = interval_over_repetitions([(one.mean, one.ci_low, one.ci_high) for one in repetitions])
    return SteadySteps(
        steps=sum(one.steps for one in repetitions),
        seconds=sum(one.seconds for one in repetitions),
        mean=found.value,
        ci_low=found.low,
        ci_high=found.high,
        ci_confidence=found.confidence,
        blocks=[Block(steps=one.steps, seconds=one.seconds) for one in repetitions],
    )


def of_blocks(blocks: Sequence[Block]) -> SteadySteps:
    """Return the mean seconds per step over all blocks, with its interval. Raises ValueError without a block.

    The mean is a ratio of totals. For n blocks, the interval is Student's t interval of its logarithm with n − 1
    degrees of freedom, so that both ends are positive. For one block, the interval is the mean, with confidence 0.
    """
    if not blocks:
        raise ValueError("no steady step: all steps belong to the warm-up or to compilation")
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
