"""Records of timing: phases, samples, their statistics, and repetitions."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from accelbench.profiling.records.stored import (
    DURATION,
    POSITIVE,
    Count,
    Duration,
    Finite,
    Moment,
    Positive,
    Seconds,
    Several,
    Share,
    Stored,
)
from accelbench.profiling.records.telemetry import Gauge, Placement

StopReason = Literal["relative spread", "steady noise", "time limit", "sample limit", "epochs done"]


class Phases(Stored):
    """The parts of the point's wall time, in seconds; compilation is never mixed into the measurement."""

    import_s: Seconds = 0.0
    """The seconds from the start of the worker to its point, spent on imports."""
    prepare_s: Seconds = 0.0
    """The seconds of preparing the point: making inputs, building the model."""
    first_call_s: Seconds = 0.0
    """The seconds of the first execution, with JIT compilation, autotuning and graph tracing."""
    warmup_s: Seconds = 0.0
    """The seconds of executions that are not samples, in which clocks and caches settle."""
    measure_s: Seconds = 0.0
    """The seconds in which the samples were taken."""
    verify_s: Seconds = 0.0
    """The seconds of checking the answer."""
    profile_s: Seconds = 0.0
    """The seconds of the pass under the profilers, after all that was measured."""


class Summary(Stored):
    """The statistics of the samples, in seconds per execution (`accelbench.profiling.timing.statistics`)."""

    count: Several
    """The number of samples."""
    effective: Annotated[float | None, POSITIVE] = None
    """The number of independent samples that would tell the median as well; null where it was not estimated."""
    median: Duration
    """The median of the samples; of several rounds the median of their medians."""
    ci_low: Positive
    """The lower end of the interval of the median."""
    ci_high: Positive
    """The upper end of the interval of the median."""
    ci_confidence: Share
    """The coverage that the median's interval really has, 0 to 1; 0.95 at least unless the samples are too few."""
    minimum: Duration
    """The smallest sample."""
    q1: Duration
    """The first quartile."""
    q3: Duration
    """The third quartile."""
    maximum: Duration
    """The largest sample."""
    mean: Duration
    """The mean of the samples."""
    relative_stdev: Finite
    """The standard deviation over the mean, a bare number."""
    outliers: Count
    """The number of samples that lie more than 1.5 interquartile ranges outside the quartiles."""


class Block(Stored):
    """A stretch of a training's steady steps: an epoch, or a part of one, or a whole round."""

    steps: Several
    """The number of steps."""
    seconds: Duration
    """The seconds that they took together, the turns of epochs among them included."""


class SteadySteps(Stored):
    """All steps of a training after its warm-up, in total (`accelbench.profiling.timing.steady`).

    Their time is all that `fit` takes from the end of the warm-up to the end of the last step: waiting for input, the
    workload's own callbacks and the turns of epochs count. The suite's own evaluation between epochs does not, nor
    does the first step of each further `fit`, which compiles anew.
    """

    steps: Several
    """The number of steps."""
    seconds: Duration
    """The seconds that they took together."""
    mean: Duration
    """The mean seconds per step; of several rounds the median of their means."""
    ci_low: Positive
    """The lower end of the interval of the mean seconds per step, which is by blocks."""
    ci_high: Positive
    """The upper end of the same interval."""
    ci_confidence: Share
    """The coverage of that interval; 0 where there is only one block."""
    blocks: list[Block]
    """The blocks, in the order measured."""


class Execution(NamedTuple):
    """The seconds of one execution that rates divide by, with the ends and the coverage of their interval."""

    seconds: float
    low: float
    high: float
    confidence: float


class Timing(Stored):
    """The raw samples and the rule that ended them."""

    samples: list[Duration]
    """The seconds per execution of each sample, in the order measured."""
    loops: Several = 1
    """The number of executions per sample: short ones are looped until a sample stands clear of the timer."""
    stop: StopReason
    """The rule that ended the sampling."""
    timer: Literal["host", "nvbench", "steps"]
    """The clock of the executions: the host's, NVBench's, or that of training steps."""
    batch: Annotated[float | None, DURATION] = None
    """The seconds per execution back to back on a GPU, with hot caches; the samples are isolated, their caches cold."""
    discarded: Count = 0
    """The number of samples thrown away because the device was throttled."""
    sm_clock: Gauge | None = None
    """The SM clock of a GPU in MHz during the kept samples, as NVBench counted it; null where it did not."""
    sm_clock_first_last: tuple[Finite, Finite] | None = None
    """The median SM clock of a GPU in MHz in the first and last third of all samples, discarded ones included."""
    summary: Summary
    """The statistics of the samples."""
    steady: SteadySteps | None = None
    """The steps of a training in total, the turns of epochs included; null for what is not measured by steps."""

    @property
    def execution(self) -> Execution:
        """Return the seconds of one execution: the median of the samples; of a training the mean of its steady steps.

        A median says nothing of the few long steps in which input arrives, and a rate has to.
        """
        if self.steady:
            return Execution(self.steady.mean, self.steady.ci_low, self.steady.ci_high, self.steady.ci_confidence)
        return Execution(self.summary.median, self.summary.ci_low, self.summary.ci_high, self.summary.ci_confidence)

    @property
    def costs(self) -> list[float]:
        """Return the seconds per execution whose average a rate divides by: of a training block by block, else all."""
        return [block.seconds / block.steps for block in self.steady.blocks] if self.steady else self.samples


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
