"""Whether a training's median step stands for its time: steps may come in bursts, and the turns of epochs count."""

from __future__ import annotations

from collections.abc import Iterator

from profiling.records.timing import Timing

APART = 0.10
"""The least difference between mean and median step, and the least share of the turns of epochs, worth saying."""


def bursts(timing: Timing) -> Iterator[str]:
    """Yield in words what takes a training's steady time beside its median step; nothing where that stands for it.

    The samples are steps within an epoch, so that their mean tells bursts; the time of all steady steps beyond that is
    what the turns of epochs cost.
    """
    if timing.steady is None:
        return
    ratio = timing.summary.mean / timing.summary.median
    if abs(ratio - 1) > APART:
        yield f"the steps come in bursts: mean step {ratio:.3g} times the median"
    turns = 1 - timing.summary.mean / timing.steady.mean
    if turns > APART:
        yield f"the turns of epochs take {turns:.0%} of the time, each between the last step of one and the next step"
