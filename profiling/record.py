"""Everything known about one measured point, as it is stored: one JSON object per line of `records.jsonl`."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal

from profiling.benchmark import Data, Device, Figure, Metric, Point, Scalar, Verification, Work
from profiling.bottleneck import Bottleneck
from profiling.host.profiler import HostProfile
from profiling.step_parts import Seen, StepParts
from profiling.stored import Stored
from profiling.trace.capture import Capture
from profiling.trace.model import TraceAnalysis

SCHEMA_VERSION: Final = 1
StopReason = Literal["relative spread", "steady noise", "time limit", "sample limit", "epochs done"]


class Phases(Stored):
    """Where the point's wall time went, in seconds; compilation is never mixed into the measurement."""

    import_s: float = 0.0
    prepare_s: float = 0.0
    first_call_s: float = 0.0
    """The first execution: JIT compilation, autotuning, graph tracing."""
    warmup_s: float = 0.0
    measure_s: float = 0.0
    verify_s: float = 0.0
    profile_s: float = 0.0
    """The pass under the profilers, after all that was measured."""


class Summary(Stored):
    """Statistics of the samples, in seconds per execution (`profiling.statistics.summarize`)."""

    count: int
    median: float
    ci_low: float
    ci_high: float
    ci_confidence: float
    """The coverage that the interval of the median really has; 0.95 unless the samples are too few."""
    minimum: float
    q1: float
    q3: float
    maximum: float
    mean: float
    relative_stdev: float
    outliers: int


class Gauge(Stored):
    """What a sensor read while the point was measured."""

    minimum: float
    median: float
    maximum: float
    unit: str


class Timing(Stored):
    """The raw samples and the rule that ended them."""

    samples: list[float]
    """Seconds per execution, in the order measured."""
    loops: int = 1
    """Executions per sample: short ones are looped until a sample stands clear of the timer."""
    stop: StopReason
    timer: Literal["host", "nvbench", "steps"]
    batch: float | None = None
    """GPU: seconds per execution back to back, caches hot; the samples are isolated and cold."""
    discarded: int = 0
    """Samples thrown away because the device was throttled."""
    sm_clock: Gauge | None = None
    """GPU: the SM clock in MHz during the kept samples, as NVBench counted it; None where it did not."""
    sm_clock_first_last: tuple[float, float] | None = None
    """GPU: its medians in the first and in the last third of all samples, those thrown away included."""
    summary: Summary


class Telemetry(Stored):
    """The machine's state during the measurement; a sensor that cannot be read is absent from `gauges`."""

    interval_s: float
    gauges: dict[str, Gauge]
    """`gpu.sm_clock`, `gpu.power`, `gpu.temperature`, `gpu.utilization`, `cpu.load.0`, `process.rss`, …

    Of several GPUs each has its own: `gpu.power.0`, `gpu.power.1`, in CUDA's order.
    """
    counters: dict[str, float]
    """Differences over the measurement: `cpu.steal_s`, `cpu.other_s`, `cgroup.throttled_s`, `gpu.energy_j`, …"""
    throttle_reasons: list[str] = []
    missing: list[str] = []
    """What could not be read, and why."""


class Peak(Stored):
    """A vendor's figure for (device, dtype), or null with the reason."""

    value: float | None
    """FLOP/s for flops, byte/s for bytes, dense."""
    reason: str | None = None
    unit_kind: str | None = None
    """The unit that reaches it: `tensor`, `plain`, `memory`."""
    clock_mhz: float | None = None
    """The clock at which the vendor states it."""
    source: str | None = None


class Profile(Stored):
    """What a training was seen to do in a pass of its own after the measured one (`profiling.profile`)."""

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

    schema_version: Literal[1] = SCHEMA_VERSION
    benchmark: str
    device: Device
    backend: str | None = None
    params: dict[str, Scalar]
    seed: int
    figure: Figure
    ceiling: bool = False
    status: Literal["measured", "failed", "skipped"]
    reason: str | None = None
    output_tail: list[str] = []
    """The worker's last lines of output, where it failed."""
    started: datetime
    elapsed_s: float = 0.0
    phases: Phases = Phases()
    work: Work | None = None
    data: Data | None = None
    """What was trained on, of a training experiment."""
    verification: Verification | None = None
    timing: Timing | None = None
    metrics: dict[str, Metric] = {}
    curves: dict[str, list[float]] = {}
    """Training history: one value per epoch."""
    peak: Peak | None = None
    telemetry: Telemetry | None = None
    profile: Profile | None = None
    """What holds it back, of a training experiment."""
    noise: list[str] = []
    """What disturbed this measurement, in words; empty when nothing was seen."""
    seen: Seen | None = None
    """Of a distributed training: its steps without exchange, and the exchange without steps."""
    parts: StepParts | None = None
    """Of a distributed training's step, by what all ranks saw."""
    ranks: list[RankRecord] = []
    """Of a point that several processes measured; what is beside them here is rank 0's."""

    @property
    def point(self) -> Point:
        return Point(self.benchmark, self.device, self.params, self.backend, self.seed)

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
        amount: float | None = getattr(self.work, figure)
        return None if amount is None else amount / self.timing.summary.median
