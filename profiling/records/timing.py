"""The samples of a point, their statistics, and where its wall time went."""

from __future__ import annotations

from typing import Literal

from profiling.records.stored import Stored
from profiling.records.telemetry import Gauge

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
    """Statistics of the samples, in seconds per execution (`profiling.timing.statistics.summarize`)."""

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
