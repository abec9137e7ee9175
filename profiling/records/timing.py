"""Records of timing: phases, samples, their statistics, and repetitions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator

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
LEAST_CLEAN = 6
"""Smallest number of clean samples for an estimate: their range contains the median with 97 % confidence."""


class Phases(Stored):
    """Phases of a point's wall time, in seconds; compilation is separate from the measurement."""

    import_s: Seconds = 0.0
    """The imports: from the start of the worker until it begins the point."""
    prepare_s: Seconds = 0.0
    """The preparation of the point: making inputs, building the model."""
    first_call_s: Seconds = 0.0
    """The first execution, with JIT compilation, autotuning and graph tracing."""
    warmup_s: Seconds = 0.0
    """The warm-up: executions without samples, in which clocks and caches settle."""
    measure_s: Seconds = 0.0
    """The sampling."""
    verify_s: Seconds = 0.0
    """The verification of the answer."""
    profile_s: Seconds = 0.0
    """The pass under the profilers, after the measurement."""


class Summary(Stored):
    """Statistics of the samples, in seconds per execution (`accelbench.profiling.timing.statistics`)."""

    count: Several
    """The number of samples."""
    effective: Annotated[float | None, POSITIVE] = None
    """The effective sample size: the equivalent number of independent samples; null where it was not estimated."""
    median: Duration
    """The median of the samples; for several repetitions, the median of their medians; for an upper bound, the upper
    end of the median's interval."""
    ci_low: Positive
    """The lower end of the median's confidence interval."""
    ci_high: Positive
    """The upper end of the median's confidence interval."""
    ci_confidence: Share
    """The actual coverage of that interval, 0 to 1: at least 0.95 unless there are too few samples."""
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
    """The standard deviation ÷ mean."""
    outliers: Count
    """The number of samples more than 1.5 interquartile ranges outside the quartiles."""


class Block(Stored):
    """Block of consecutive steady steps of a training workload: an epoch, a part of one, or a whole repetition."""

    steps: Several
    """The number of steps."""
    seconds: Duration
    """The total time of the steps, epoch boundaries between them included."""


class SteadySteps(Stored):
    """All training steps after the warm-up, in total (`accelbench.profiling.timing.steady`).

    Their time is the time of `fit` from the end of the warm-up to the end of the last step. It includes waiting for
    input, the workload's own callbacks and epoch boundaries. It excludes accelbench's evaluation between epochs and
    the first step of each further `fit`, which compiles again.
    """

    steps: Several
    """The number of steps."""
    seconds: Duration
    """The total time of the steps."""
    mean: Duration
    """The mean seconds per step; for several repetitions, the median of their means."""
    ci_low: Positive
    """The lower end of the confidence interval of `mean`, computed from the blocks; less what other processes may have
    delayed the steps."""
    ci_high: Positive
    """The upper end of the same interval."""
    ci_confidence: Share
    """The coverage of that interval; 0 for a single block."""
    blocks: list[Block]
    """The blocks, in the order measured."""


class Execution(NamedTuple):
    """Time per execution from which rates are computed, with the ends and the coverage of its interval."""

    seconds: float
    low: float
    high: float
    confidence: float


class SampleCauses(Stored):
    """Recorded disturbances of the samples, and the samples chosen by them for the statistics.

    The counters are read between samples, for several short samples at once; the columns have one value per reading in
    which the samples were disturbed (`accelbench.profiling.timing.causes`). All other samples are clean. A column may
    be empty if its cause was not observed for any sample.
    """

    source: Literal["schedstat", "switches", "others", "launches", "card"]
    """The criterion: the waiting of the threads for a CPU, or only their involuntary switches; for blocks of training
    steps the CPU time of other processes, or on a GPU the waiting of the thread that launches; `card` for the samples
    of a GPU that only other processes on the card disturb."""
    used: list[tuple[Count, Count]]
    """The ranges of samples of which the statistics are, each from the first to before the end, counted from 0."""
    first: list[Count] = []
    """The first sample of the reading, counted from 0."""
    count: list[Several] = []
    """The number of samples of the reading."""
    waited_s: list[Seconds] = []
    """The time for which threads were runnable without a free CPU, summed over the threads of the process."""
    switches: list[Count] = []
    """The number of involuntary context switches of the process."""
    stolen_s: list[Seconds] = []
    """The time that the hypervisor gave to others, summed over the CPUs of the process."""
    throttled_s: list[Seconds] = []
    """The time for which a CPU quota stopped the process, summed over the CPUs."""
    stopped_s: list[Seconds] = []
    """The time for which the process was stopped or the machine suspended."""
    others_s: list[Seconds] = []
    """The CPU time of all processes of the machine except the measured ones."""
    card_s: list[Seconds] = []
    """The time for which another process held the GPU."""


CAUSE_COLUMNS = ("first", "count", "waited_s", "switches", "stolen_s", "throttled_s", "stopped_s", "others_s", "card_s")
"""The columns of `SampleCauses`, each with one value per reading, or empty if it is unknown."""


class Timing(Stored):
    """Raw samples, their statistics, and the stopping rule that ended the sampling."""

    samples: Annotated[list[Duration], Field(min_length=1)]
    """The seconds per execution of each sample, in the order measured."""
    loops: Several = 1
    """The number of executions per sample: short executions are repeated until a sample is long enough for the timer.
    """
    stop: StopReason
    """The stopping rule that ended the sampling."""
    timer: Literal["host", "nvbench", "steps"]
    """The timer: the host's clock, NVBench's, or the clock of training steps."""
    batch: Annotated[float | None, DURATION] = None
    """The seconds per back-to-back execution on a GPU, with hot caches; the samples are isolated, with cold caches."""
    discarded: Count = 0
    """The number of samples that earlier versions discarded because the device was throttled."""
    sm_clock: Gauge | None = None
    """The SM clock of a GPU in MHz during the samples, as measured by NVBench; null where it was not measured."""
    sm_clock_first_last: tuple[Finite, Finite] | None = None
    """The median SM clock of a GPU in MHz in the first and last third of all samples."""
    summary: Summary
    """The statistics of the samples: of those chosen by `causes`, if the causes are known. An upper bound does not
    include the waiting of threads that ran one at a time."""
    causes: SampleCauses | None = None
    """The disturbances of the samples; null where they are unknown, and the statistics are of all samples."""
    upper_bound: str | None = None
    """The reason why the time is an upper bound and the rate a lower one: too few samples were clean; null for an
    estimate."""
    steady: SteadySteps | None = None
    """The total of the training steps, epoch boundaries included; null for anything not timed by training steps. If
    blocks of steps were disturbed, it is of the others, with the mean epoch boundary distributed over the steps."""
    extended_s: Seconds = 0.0
    """The additional time of training steps that were taken because too few blocks were clean."""

    @model_validator(mode="after")
    def _causes_are_of_the_samples(self) -> Self:
        causes = self.causes
        if causes is None:
            return self
        ends = [place for pair in causes.used for place in pair]
        if not ends or ends != sorted(set(ends)) or ends[-1] > len(self.samples):
            raise ValueError("causes.used must be ascending ranges of the samples, and at least one")
        readings = [(first, first + count) for first, count in zip(causes.first, causes.count, strict=False)]
        places = [place for pair in readings for place in pair]
        if places != sorted(places) or (places and places[-1] > len(self.samples)):
            raise ValueError("the readings of causes must be ascending ranges of the samples")
        sizes = {len(getattr(causes, name)) for name in CAUSE_COLUMNS}
        if sizes - {0, len(causes.first)}:
            raise ValueError("the columns of causes differ in length")
        return self

    @property
    def used(self) -> list[float]:
        """Return the samples of which the statistics are, in the order measured."""
        if self.causes is None:
            return self.samples
        return [sample for first, end in self._used_ranges for sample in self.samples[first:end]]

    def used_by_repetition(self, counts: Sequence[int]) -> list[list[float]]:
        """Return `used` by repetition, given their numbers of samples; repetitions without used samples are omitted."""
        found: list[list[float]] = []
        for end, count in zip(accumulate(counts), counts, strict=True):
            inside = [(max(first, end - count), min(last, end)) for first, last in self._used_ranges]
            found.append([sample for first, last in inside if first < last for sample in self.samples[first:last]])
        return [part for part in found if part] or [self.used]

    @property
    def _used_ranges(self) -> list[tuple[int, int]]:
        return self.causes.used if self.causes else [(0, len(self.samples))]

    @property
    def clean_share(self) -> float | None:
        """Return the share of the samples without a recorded disturbance; None if the causes are unknown."""
        return None if self.causes is None else 1 - sum(self.causes.count) / len(self.samples)

    @property
    def execution(self) -> Execution:
        """Return the time per execution: the median of the samples; for training, the mean of the steady steps.

        A median step does not include the few long steps that wait for input, and a throughput must.
        """
        if self.steady:
            return Execution(self.steady.mean, self.steady.ci_low, self.steady.ci_high, self.steady.ci_confidence)
        return Execution(self.summary.median, self.summary.ci_low, self.summary.ci_high, self.summary.ci_confidence)

    @property
    def costs(self) -> list[float]:
        """Return the seconds per execution of each used sample; for training, of each block of steady steps."""
        return [block.seconds / block.steps for block in self.steady.blocks] if self.steady else self.used


class Repetition(Stored):
    """Repetition of a point in one process, as part of a joined record."""

    number: Several
    """The number of the repetition, from 1."""
    order: Several
    """The position in the run's sequence of measurements, from 1."""
    started: Moment
    """The start time, with its time zone."""
    count: Several
    """The number of samples; the joined timing has the samples of all repetitions in order."""
    loops: Several
    """The number of executions per sample."""
    stop: StopReason
    """The stopping rule that ended the sampling."""
    summary: Summary
    """The statistics of this repetition's samples; the interval covers variation within the process."""
    clean_share: Share | None = None
    """The share of its samples without a recorded disturbance; null if the causes are unknown."""
    upper_bound: str | None = None
    """The reason why its time is an upper bound, so that it is left out if another repetition has an estimate."""
    placement: Placement | None = None
    """The CPUs that the measuring thread ran on."""
    noise: list[str] = []
    """The disturbances of this repetition, as text; empty if none was observed."""
