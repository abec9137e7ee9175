"""Record of one point: a line of `records.jsonl` is the record of one of its repetitions."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from accelbench.profiling.records.bottleneck import Bottleneck
from accelbench.profiling.records.environment import Peak
from accelbench.profiling.records.host import HostProfile
from accelbench.profiling.records.layout import Layout
from accelbench.profiling.records.matrix import MatrixAxes
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import ConfusionMatrix, Data, Metric, Quality, Verification
from accelbench.profiling.records.script import ScriptProfile
from accelbench.profiling.records.step import IsolatedTimes, StepParts
from accelbench.profiling.records.stored import Moment, Seconds, Stored
from accelbench.profiling.records.telemetry import Placement, Telemetry
from accelbench.profiling.records.timing import Phases, Repetition, Summary, Timing
from accelbench.profiling.records.trace import Capture, TraceAnalysis
from accelbench.profiling.records.work import UNITS, Bound, MainMetric, Work

SCHEMA_VERSION: Final = 2
Status = Literal["measured", "failed", "skipped"]
"""The possible outcomes of a point."""


class Profile(Stored):
    """Profile of a training workload, taken in a separate pass after the measurement
    (`accelbench.profiling.measure.profiled_steps`)."""

    bottleneck: Bottleneck
    """The bottleneck of the training."""
    capture: Capture | None = None
    """The capture of a trace by the framework's own profiler."""
    trace: TraceAnalysis | None = None
    """The analysis of that trace."""
    host: HostProfile | None = None
    """The profile of the host's time; null if the host was not sampled."""
    trace_folder: str | None = None
    """The folder of the trace, relative to the run's directory; null if the trace was not kept."""
    host_folder: str | None = None
    """The folder of the host's stacks, relative to the run's directory; null if they were not kept."""
    missing: list[str] = []
    """The files that could not be kept, and an experiment that failed, each with the reason, as text."""
    elapsed_s: float = 0.0
    """The wall time of the pass, in seconds."""
    script: ScriptProfile | None = None
    """The steps and lines of a user's script; null for accelbench's own workloads."""


class RankRecord(Stored):
    """Measurement of one rank, at a point that several ranks measured together."""

    rank: int
    """The number of the rank, from 0."""
    node: int
    """The number of the rank's host, from 0, the same for all ranks of a host."""
    summary: Summary | None = None
    """The statistics of this rank's samples; null if it took none."""
    metrics: dict[str, Metric] = {}
    """The further metrics of this rank, by name."""
    noise: list[str] = []
    """The disturbances of this rank's measurement, as text; empty if none was observed."""
    seen: IsolatedTimes | None = None
    """The isolated times of this rank: steps without exchange, and exchanges without steps."""


class Record(Stored):
    """Record of a measured, failed or skipped point: of one repetition in the file, of all of them after joining."""

    schema_version: Literal[2] = SCHEMA_VERSION
    """The version of this schema; other versions are refused."""
    point: Point
    """The point that was measured: the benchmark, the device, and the value of each axis."""
    figure: MainMetric
    """The main metric in the report: a rate of flops, bytes or items, or the time."""
    ceiling: bool = False
    """Whether the rate is an empirical peak, a ceiling on the roofline of this device."""
    bound: Bound = Bound()
    """The resource of the device that bounds the rate, as the benchmark declares it."""
    layout: Layout = Layout()
    """The processes, devices and replicas of the point."""
    sizes: dict[str, int] = {}
    """The axes that are sizes, each with its unit in bytes."""
    matrix: MatrixAxes | None = None
    """The axes of a matrix of results; null if the points of the benchmark form none."""
    status: Status
    """`measured` for a verified result, `failed`, or `skipped` if the point cannot be measured on this machine."""
    reason: str | None = None
    """The reason why the point failed or was skipped."""
    output_tail: list[str] = []
    """The last lines of the worker's output, if it failed."""
    round: int = Field(default=1, ge=1)
    """The number of the repetition, from 1; each is a new process. In a joined record, the first one."""
    order: int = Field(default=1, ge=1)
    """The position in the run's sequence of measurements, from 1. In a joined record, of the first repetition."""
    rounds: list[Repetition] = []
    """The repetitions of a joined record; empty in the file, and for a single repetition."""
    started: Moment
    """The start time, with its time zone."""
    elapsed_s: Seconds = 0.0
    """The wall time of all repetitions in seconds, without the imports of the workers."""
    phases: Phases = Phases()
    """The parts of the wall time of all repetitions, in seconds."""
    work: Work | None = None
    """The work of one execution, or of one training step."""
    data: Data | None = None
    """The data set of a training workload."""
    qualities: list[Quality] = []
    """The quality metrics of the trained model."""
    verification: Verification | None = None
    """The result of checking the answer."""
    timing: Timing | None = None
    """The samples, their statistics, and the rule that ended the sampling."""
    metrics: dict[str, Metric] = {}
    """The further metrics of the point by name: qualities, clocks, shares."""
    curves: dict[str, list[float]] = {}
    """The training history by metric name: one value per epoch. `val_` metrics are of the held-out examples;
    `precision`, `recall` and `f1` are of as many evenly spaced training examples, at the end of the epoch."""
    confusion: ConfusionMatrix | None = None
    """The confusion matrix of a classifier after the last epoch; in repeated training, of the last model."""
    peak: Peak | None = None
    """The vendor's peak that bounds the rate."""
    telemetry: Telemetry | None = None
    """The machine's state during the measurement."""
    placement: Placement | None = None
    """The CPUs that the measuring thread ran on."""
    held_back: list[str] = []
    """The settings that limit the libraries to less than the CPU supports, as text."""
    profile: Profile | None = None
    """The profile of a training workload, with its bottleneck."""
    noise: list[str] = []
    """The disturbances of this measurement, as text; empty if none was observed."""
    seen: IsolatedTimes | None = None
    """The isolated times of rank 0 in distributed training: steps without exchange, and exchanges without steps."""
    parts: StepParts | None = None
    """The parts of a distributed training step, from the isolated times of all ranks."""
    ranks: list[RankRecord] = []
    """The measurement of each rank, if several ranks measured the point; the other fields are rank 0's."""

    @property
    def items_timed(self) -> float:
        """Return the number of items by which a time is divided; 1 where no items are counted."""
        return (self.work and self.work.items) or 1.0

    def rate(self, metric: MainMetric | None = None) -> float | None:
        """Return the flops, bytes or items per second; for `time`, the seconds per execution over `items_timed`.

        The time per execution is the median of the samples; for training, the total time of the steady steps over their
        number (`Timing.execution`).
        """
        if self.status != "measured" or self.timing is None:
            return None
        return self._rate_of(self.timing.execution.seconds, metric or self.figure)

    def _rate_of(self, seconds: float, metric: MainMetric) -> float | None:
        if metric == "time":
            return seconds / self.items_timed
        amount = self.work.amount(metric) if self.work else None
        return None if amount is None else amount / seconds

    def repetition_rates(self) -> list[float]:
        """Return `rate()` of each repetition by the median of its samples; empty for unknown work."""
        rates = [self._rate_of(each.summary.median, self.figure) for each in self.rounds]
        return [rate for rate in rates if rate is not None]

    @property
    def unit(self) -> str:
        """Return the unit of `rate()`: FLOP/s, B/s, items per second such as images/s, or s."""
        return UNITS.get(self.figure) or f"{self.work.item if self.work else 'items'}/s"

    def bound_sign(self, metric: MainMetric | None = None) -> str:
        """Return `≥ ` for a lower bound of a rate, `≤ ` for an upper bound of a time, and nothing for an estimate."""
        if self.timing is None or not self.timing.upper_bound:
            return ""
        return "≤ " if (metric or self.figure) == "time" else "≥ "

    def rate_interval(self, metric: MainMetric | None = None) -> tuple[float, float, float] | None:
        """Return `rate()` and the lower and upper end of its interval; None if the rate is unknown.

        All three are equal for a bound, which has no interval.
        """
        rate = self.rate(metric)
        if rate is None or self.timing is None:
            return None
        if self.timing.upper_bound:
            return rate, rate, rate
        execution = self.timing.execution
        ends = [self._rate_of(seconds, metric or self.figure) for seconds in (execution.low, execution.high)]
        low, high = sorted(end for end in ends if end is not None)
        return rate, low, high
