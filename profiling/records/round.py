"""One of the rounds in which a point was measured: a fresh process each, with other points' rounds between them."""

from __future__ import annotations

from accelbench.profiling.records.placement import Placement
from accelbench.profiling.records.stored import Moment, Several, Stored
from accelbench.profiling.records.timing import StopReason, Summary


class Round(Stored):
    """The measurement of a point in one process, as the joined record tells of it."""

    number: Several
    """The number of the round, from 1."""
    order: Several
    """The place of this measurement in the run's sequence of measurements, from 1."""
    started: Moment
    """The moment at which the round was begun, with its time zone."""
    count: Several
    """The number of samples that this round took; those of all rounds stand one after the other in the timing."""
    loops: Several
    """The number of executions per sample in this round."""
    stop: StopReason
    """The rule that ended the sampling of this round."""
    summary: Summary
    """The statistics of this round's samples, whose interval covers what changes within the process."""
    placement: Placement | None = None
    """The CPUs that the measuring thread of this round ran on."""
    noise: list[str] = []
    """The disturbances of this round, in words; empty when nothing was seen."""
