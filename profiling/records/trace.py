"""What is stored of a trace: its steps, its operations, and what the readers could not tell."""

from __future__ import annotations

from typing import Literal, get_args

from profiling.records.stored import Stored

Part = Literal["kernel", "collective", "host_to_device", "device_to_host", "compile", "input_wait", "idle", "host"]
PARTS: tuple[Part, ...] = get_args(Part)
"""By precedence: a moment of a step belongs to the first of them that goes on then.

So a copy, a collective or an input counts only as far as no kernel hides it. What nothing explains is the host's:
Python, dispatch, the framework's runtime. Idle is a moment in which the host does nothing but wait, for a device that
has nothing to do.
"""
LAUNCHING: tuple[Part, ...] = ("compile", "idle", "host")
"""Those in which the device has nothing to do, because the host has not started it."""


class Breakdown(Stored):
    """The mean step of a trace and the parts it is made of."""

    steps: int
    step_s: float
    parts: dict[Part, float]
    """Seconds of the mean step; they add up to `step_s`."""
    kernels: float = 0.0
    """How many were started in the mean step."""

    def share(self, part: Part) -> float:
        """The part's share of the step, 0 to 1."""
        return self.parts[part] / self.step_s if self.step_s else 0.0


class Operation(Stored):
    """All executions of one operation in the traced steps."""

    name: str
    kind: str | None = None
    """`MatMul`, `fusion`, where it is known."""
    where: Literal["device", "host"]
    occurrences: int
    self_s: float
    """Seconds without what it called, summed over threads and streams."""


class XprofSteps(Stored):
    """The mean step as xprof divides it."""

    steps: int
    step_s: float
    parts: dict[str, float]
    """Seconds, by xprof's own names (`COLUMNS`)."""


class Converted(Stored):
    """What the converters made of one trace."""

    version: str | None = None
    hardware: str | None = None
    """`CPU_ONLY`, `GPU`, `TPU`."""
    steps: XprofSteps | None = None
    input_verdict: str | None = None
    operations: list[Operation] = []
    operations_by: str = "xprof"
    memory_peak_bytes: int | None = None
    """The most that a device's allocator had given out at a time."""


class Events(Stored):
    """The whole file, by its raw events."""

    unreadable: str | None = None
    """Why there is nothing else."""
    size: int = 0
    errors: list[str] = []
    """What the profiler itself complained of."""
    devices: list[str] = []
    device_events: int = 0
    breakdown: Breakdown | None = None
    cut_steps: int | None = None
    """The first so many steps are in CUT, which is written only where the file is too large for xprof."""


class TraceAnalysis(Stored):
    """What one trace says; what it does not say is null, and the reason is in `missing`."""

    file: str | None = None
    """Within the trace's folder."""
    size: int = 0
    failure: str | None = None
    """Why the trace is no evidence: it cannot be read, or shows nothing of the device; with what mends it."""
    breakdown: Breakdown | None = None
    """From the raw events, the same on every device and backend."""
    xprof_steps: XprofSteps | None = None
    """From xprof, to set beside it."""
    xprof_covers: str | None = None
    """Which steps xprof was given, where the trace is too large for it."""
    operations: list[Operation] = []
    operations_by: str | None = None
    """`xprof`, or `raw events` where xprof has no table."""
    input_wait_share: float | None = None
    """Of the step, 0 to 1."""
    input_verdict: str | None = None
    """From that share."""
    xprof_verdict: str | None = None
    """In xprof's words: it takes for input whatever it cannot explain, which on JAX is most of a step on a CPU."""
    memory_peak_bytes: int | None = None
    devices: list[str] = []
    device_events: int = 0
    profiler_errors: list[str] = []
    xprof_version: str | None = None
    missing: dict[str, str] = {}


class Capture(Stored):
    """What became of one capture."""

    file: str | None = None
    """The trace, within its folder; null where `reason` says why."""
    reason: str | None = None
    first_step: int | None = None
    """Counted from 0 over all epochs."""
    steps: int = 0
    """Whole steps that were traced; fewer than asked for if the training ended."""
    disturbed: list[int] = []
    """Steps that the profiler ran in, or its start or stop: their times are no samples."""
    start_s: float = 0.0
    stop_s: float = 0.0
    """Seconds that starting the profiler took, and stopping it and writing its file."""
