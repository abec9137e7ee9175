"""Everything known about one measured point, as it is stored: one JSON object per line of `records.jsonl`."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal

from profiling.records.bottleneck import Bottleneck
from profiling.records.host import HostProfile
from profiling.records.layout import Layout
from profiling.records.peak import Peak
from profiling.records.point import Point
from profiling.records.quality import Data, Metric, Quality, Verification
from profiling.records.step import Seen, StepParts
from profiling.records.stored import Stored
from profiling.records.telemetry import Telemetry
from profiling.records.timing import Phases, Summary, Timing
from profiling.records.trace import Capture, TraceAnalysis
from profiling.records.work import UNITS, Bound, Figure, Work

SCHEMA_VERSION: Final = 2


class Profile(Stored):
    """What a training was seen to do in a pass of its own after the measured one (`profiling.profiled_steps`)."""

    bottleneck: Bottleneck
    capture: Capture | None = None
    """How the trace was taken."""
    trace: TraceAnalysis | None = None
    """What it says."""
    host: HostProfile | None = None
    trace_folder: str | None = None
    host_folder: str | None = None
    """Within the run's directory, where they were kept."""
    missing: list[str] = []
    """What could not be kept, and why."""
    elapsed_s: float = 0.0


class RankRecord(Stored):
    """What one of several ranks saw of the point that they measured together."""

    rank: int
    node: int
    """The number of its host; ranks of one host have the same."""
    summary: Summary | None = None
    metrics: dict[str, Metric] = {}
    noise: list[str] = []
    seen: Seen | None = None


class Record(Stored):
    """One point: measured, failed or skipped."""

    schema_version: Literal[2] = SCHEMA_VERSION
    """The version of this schema; another is refused."""
    point: Point
    """What was measured: the benchmark, the device, and the value of each axis."""
    figure: Figure
    """What the report leads with."""
    ceiling: bool = False
    """Whether the rate bounds what else is measured on this device."""
    bound: Bound = Bound()
    """What bounds the rate, as the benchmark declares it."""
    layout: Layout = Layout()
    """How the point was laid out over processes and devices."""
    sizes: dict[str, int] = {}
    """The axes of the point that are sizes, and the unit of each in bytes."""
    status: Literal["measured", "failed", "skipped"]
    """Whether there is a verified figure, the point went wrong, or it cannot be measured here."""
    reason: str | None = None
    """Why the point failed or was skipped."""
    output_tail: list[str] = []
    """The worker's last lines of output, where it failed."""
    started: datetime
    """The moment at which the point was begun, with its time zone."""
    elapsed_s: float = 0.0
    """The wall time of the point, without the imports of its worker."""
    phases: Phases = Phases()
    """The parts of the wall time."""
    work: Work | None = None
    """What one execution, or one training step, must do."""
    data: Data | None = None
    """What was trained on, of a training experiment."""
    qualities: list[Quality] = []
    """The metrics that say how good the trained model is."""
    verification: Verification | None = None
    """How the answer was checked, and what came out."""
    timing: Timing | None = None
    """The samples, their statistics, and why the sampling ended."""
    metrics: dict[str, Metric] = {}
    """Further figures by their names: qualities, clocks, shares."""
    curves: dict[str, list[float]] = {}
    """Training history: one value per epoch."""
    peak: Peak | None = None
    """The vendor's figure that bounds the rate."""
    telemetry: Telemetry | None = None
    """The machine's state during the measurement."""
    profile: Profile | None = None
    """What holds it back, of a training experiment."""
    noise: list[str] = []
    """What disturbed this measurement, in words; empty when nothing was seen."""
    seen: Seen | None = None
    """What rank 0 of a distributed training saw: its steps without exchange, and the exchange without steps."""
    parts: StepParts | None = None
    """The parts of a distributed training's step, by what all ranks saw."""
    ranks: list[RankRecord] = []
    """What each rank saw of a point that several measured together; the other fields are rank 0's."""

    @property
    def items_timed(self) -> float:
        """What a figure of time is the time of: the items of one execution where they are counted, else all of it."""
        return (self.work and self.work.items) or 1.0

    def rate(self, figure: Figure | None = None) -> float | None:
        """Work per second at the median (flops, bytes or items); for `time` the median seconds (`items_timed`)."""
        figure = figure or self.figure
        if self.status != "measured" or self.timing is None:
            return None
        if figure == "time":
            return self.timing.summary.median / self.items_timed
        amount = self.work.amount(figure) if self.work else None
        return None if amount is None else amount / self.timing.summary.median

    @property
    def unit(self) -> str:
        """The unit of `rate()`: FLOP/s, B/s, the items per second by their name, or s of a figure of time."""
        return UNITS.get(self.figure) or f"{self.work.item if self.work else 'items'}/s"

    def rate_interval(self, figure: Figure | None = None) -> tuple[float, float, float] | None:
        """Return `rate()` with its interval: the rate, the lower and the upper end; None where the rate is unknown."""
        rate = self.rate(figure)
        if rate is None or self.timing is None:
            return None
        summary = self.timing.summary
        if (figure or self.figure) == "time":
            return rate, summary.ci_low / self.items_timed, summary.ci_high / self.items_timed
        amount = rate * summary.median
        return rate, amount / summary.ci_high, amount / summary.ci_low
