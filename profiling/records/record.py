"""Record of one measured point: one line of `records.jsonl`, for one of its repetitions."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from accelbench.profiling.records.bottleneck import Bottleneck
from accelbench.profiling.records.environment import Peak
from accelbench.profiling.records.host import HostProfile
from accelbench.profiling.records.layout import Layout
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Data, Metric, Quality, Verification
from accelbench.profiling.records.step import IsolatedTimes, StepParts
from accelbench.profiling.records.stored import Moment, Seconds, Stored
from accelbench.profiling.records.telemetry import Placement, Telemetry
from accelbench.profiling.records.timing import Phases, Round, Summary, Timing
from accelbench.profiling.records.trace import Capture, TraceAnalysis
from accelbench.profiling.records.work import UNITS, Bound, Figure, Work

SCHEMA_VERSION: Final = 2
Status = Literal["measured", "failed", "skipped"]
"""The ways in which a point ends."""


class Profile(Stored):
    """The behaviour of a training in a pass of its own after the measured one
    (`accelbench.profiling.measure.profiled_steps`)."""

    bottleneck: Bottleneck
    """The verdict on what holds the training back."""
    capture: Capture | None = None
    """The outcome of tracing the training with the framework's own profiler."""
    trace: TraceAnalysis | None = None
    """The analysis of that trace."""
    host: HostProfile | None = None
    """The host's time and where it went, where the host was sampled."""
    trace_folder: str | None = None
    """The folder in which the trace was kept, within the run's directory; null where it was not kept."""
    host_folder: str | None = None
    """The folder in which the host's stacks were kept, within the run's directory; null where they were not kept."""
    missing: list[str] = []
    """The sentences that say what could not be kept, and why."""
    elapsed_s: float = 0.0
    """The wall time of the pass, in seconds."""


class RankRecord(Stored):
    """The measurement of one of several ranks at the point that they measured together."""

    rank: int
    """The number of the rank, from 0."""
    node: int
    """The number of the rank's host; ranks of one host have the same."""
    summary: Summary | None = None
    """The statistics of this rank's samples; null where it took none."""
    metrics: dict[str, Metric] = {}
    """The further figures of this rank, by their names."""
    noise: list[str] = []
    """The disturbances of this rank's measurement, in words; empty when nothing was seen."""
    seen: IsolatedTimes | None = None
    """The steps of this rank without exchange, and its exchanges without steps."""


class Record(Stored):
    """One point: measured, failed or skipped, in one round as it is stored, or in all of them once they are joined."""

    schema_version: Literal[2] = SCHEMA_VERSION
    """The version of this schema; another is refused."""
    point: Point
    """The point that was measured: the benchmark, the device, and the value of each axis."""
    figure: Figure
    """The figure that the report leads with: a rate of flops, bytes or items, or the time."""
    ceiling: bool = False
    """Whether the rate bounds what else is measured on this device."""
    bound: Bound = Bound()
    """The resource of the device that bounds the rate, as the benchmark declares it."""
    layout: Layout = Layout()
    """The processes and devices that the point was laid out over."""
    sizes: dict[str, int] = {}
    """The axes of the point that are sizes, and the unit of each in bytes."""
    status: Status
    """Whether there is a verified figure (`measured`), the point went wrong, or it cannot be measured here."""
    reason: str | None = None
    """The reason why the point failed or was skipped."""
    output_tail: list[str] = []
    """The worker's last lines of output, where it failed."""
    round: int = Field(default=1, ge=1)
    """The number of the round, from 1: a point is measured in several, each in a fresh process; joined, the first."""
    order: int = Field(default=1, ge=1)
    """The place of this measurement in the run's sequence of measurements, from 1; joined, that of the first round."""
    rounds: list[Round] = []
    """The rounds that were joined to this record; none in a line of a file, or where there was only one."""
    started: Moment
    """The moment at which the point was begun, with its time zone."""
    elapsed_s: Seconds = 0.0
    """The wall time of the point in seconds, all rounds together, without the imports of its workers."""
    phases: Phases = Phases()
    """The parts of the wall time, in seconds, all rounds together."""
    work: Work | None = None
    """The work that one execution, or one training step, must do."""
    data: Data | None = None
    """The data that a training experiment was trained on."""
    qualities: list[Quality] = []
    """The metrics that say how good the trained model is."""
    verification: Verification | None = None
    """The outcome of checking the answer."""
    timing: Timing | None = None
    """The samples, their statistics, and the rule that ended the sampling."""
    metrics: dict[str, Metric] = {}
    """The further figures of the point by their names: qualities, clocks, shares."""
    curves: dict[str, list[float]] = {}
    """The history of a training, by the name of each quality: one value per epoch."""
    peak: Peak | None = None
    """The vendor's figure that bounds the rate."""
    telemetry: Telemetry | None = None
    """The machine's state during the measurement."""
    placement: Placement | None = None
    """The CPUs that the measuring thread ran on."""
    held_back: list[str] = []
    """The settings that kept the libraries which did the work below what the CPU can, in words."""
    profile: Profile | None = None
    """The profile of a training, which says what holds it back."""
    noise: list[str] = []
    """The disturbances of this measurement, in words; empty when nothing was seen."""
    seen: IsolatedTimes | None = None
    """The steps of a distributed training's rank 0 without exchange, and its exchanges without steps."""
    parts: StepParts | None = None
    """The parts of a distributed training's step, by what all ranks saw."""
    ranks: list[RankRecord] = []
    """The measurements of each rank of a point that several measured together; the other fields are rank 0's."""

    @property
    def items_timed(self) -> float:
        """Return the number of items that a figure of time is divided by; 1 where no items are counted."""
        return (self.work and self.work.items) or 1.0

    def rate(self, figure: Figure | None = None) -> float | None:
        """Return the flops, bytes or items per second; for `time` the seconds of an execution over `items_timed`.

        The seconds of an execution are the median's; of a training they are all steady time over all steady steps
        (`Timing.execution`), so that the rate times that time is the work done, however the steps came.
        """
        figure = figure or self.figure
        if self.status != "measured" or self.timing is None:
            return None
        if figure == "time":
            return self.timing.execution.seconds / self.items_timed
        amount = self.work.amount(figure) if self.work else None
        return None if amount is None else amount / self.timing.execution.seconds

    @property
    def unit(self) -> str:
        """Return the unit of `rate()`: FLOP/s, B/s, the items per second by their name, or s for a figure of time."""
        return UNITS.get(self.figure) or f"{self.work.item if self.work else 'items'}/s"

    def rate_interval(self, figure: Figure | None = None) -> tuple[float, float, float] | None:
        """Return `rate()` with its interval: the rate, the lower and the upper end; None where the rate is unknown."""
        rate = self.rate(figure)
        if rate is None or self.timing is None:
            return None
        execution = self.timing.execution
        if (figure or self.figure) == "time":
            return rate, execution.low / self.items_timed, execution.high / self.items_timed
        amount = rate * execution.seconds
        return rate, amount / execution.high, amount / execution.low
