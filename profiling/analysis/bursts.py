"""Whether a training's median step stands for its time: steps may come in bursts, and the turns of epochs count."""

from __future__ import annotations

from accelbench.profiling.records.timing import Timing

APART = 0.10
"""The least difference between mean and median step, and the least share of the turns of epochs, worth saying."""


def bursts(timing: Timing) -> str | None:
    """Return in words that the mean step within epochs is not the median; None where that stands for the steps."""
    ratio = timing.summary.mean / timing.summary.median
    if timing.steady is None or abs(ratio - 1) <= APART:
        return None
    return f"the steps come in bursts: mean step {ratio:.3g} times the median"


def epoch_turns(timing: Timing) -> str | None:
    """Return in words that the turns of epochs take much of a training's steady time; None where they take little.

    They are the time of all steady steps beyond what these would take as the samples do, which are within epochs.
    """
    turns = 1 - timing.summary.mean / timing.steady.mean if timing.steady else 0.0
    if turns <= APART:
        return None
    return f"the turns of epochs take {turns:.0%} of the time, each between the last step of one and the next step"
