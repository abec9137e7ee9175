"""Records of a trace: steps, operations, and reasons for unknown values."""

from __future__ import annotations

from typing import Literal, get_args

from accelbench.profiling.records.stored import Stored

Part = Literal["kernel", "collective", "host_to_device", "device_to_host", "compile", "input_wait", "idle", "host"]
PARTS: tuple[Part, ...] = get_args(Part)
"""The parts of a step by precedence: each moment counts as the first part that is active then.

So copies, collectives and input count only where they are not overlapped with kernels. `host` is the rest: Python,
dispatch, the framework's runtime. `idle` is time in which the host only waits and the device has no work.
"""
LAUNCHING: tuple[Part, ...] = ("compile", "idle", "host")
"""The parts in which the device is idle because the host has not launched work."""


class Breakdown(Stored):
    """Mean step of a trace, and its parts."""

    steps: int
    """The number of traced steps."""
    step_s: float
    """The seconds of the mean step."""
    parts: dict[Part, float]
    """The seconds of each part of the mean step; they add up to `step_s`."""
    of_steps: dict[Part, list[float]] = {}
    """The seconds of each part in each step, in step order, without parts of length 0."""
    kernels: float = 0.0
    """The mean number of kernel launches per step."""

    def share(self, part: Part) -> float:
        """Return the part's share of the step, 0 to 1."""
        return self.parts[part] / self.step_s if self.step_s else 0.0


class Operation(Stored):
    """All executions of one operation in the traced steps."""

    name: str
    """The operation's name in the trace."""
    kind: str | None = None
    """The kind of operation, such as `MatMul` or `fusion`; null if unknown."""
    where: Literal["device", "host"]
    """Whether it ran on the device or on the host."""
    occurrences: int
    """The number of its executions in the traced steps."""
    self_s: float
    """The self time of all executions (without nested operations) in seconds, summed over threads and streams."""
    share: float | None = None
    """The share of the self time of all operations on the device or on the host, 0 to 1."""


class OperationKind(Stored):
    """All operations of one kind in the traced steps."""

    kind: str
    """The kind as xprof names it, or the operation's name without its numeric suffix."""
    where: Literal["device", "host"]
    """Whether they ran on the device or on the host."""
    operations: int
    """The number of operations of this kind."""
    occurrences: int
    """The number of their executions."""
    self_s: float
    """The self time of all executions (without nested operations) in seconds, summed over threads and streams."""
    share: float
    """The share of the self time of all operations on the device or on the host, 0 to 1."""


class XprofSteps(Stored):
    """Mean step and its parts by xprof."""

    steps: int
    """The number of steps that xprof found."""
    step_s: float
    """The seconds of the mean step."""
    parts: dict[str, float]
    """The seconds of each part of the mean step, by xprof's names
    (`accelbench.profiling.trace.converters.COLUMNS`)."""


class XprofFindings(Stored):
    """Results of xprof's converters for one trace."""

    version: str | None = None
    """The version of xprof."""
    hardware: str | None = None
    """The hardware of the trace, according to xprof: `CPU_ONLY`, `GPU`, `TPU`."""
    steps: XprofSteps | None = None
    """The mean step and its parts; null if xprof found no steps."""
    input_verdict: str | None = None
    """The text of xprof's verdict on the input."""
    operations: list[Operation] = []
    """The operations with the most self time, device operations first."""
    kinds: list[OperationKind] = []
    """The kinds of operations with the most self time, device operations first."""
    memory_peak_bytes: int | None = None
    """The peak memory use of a device's allocator, in bytes."""


class EventFindings(Stored):
    """Results from the raw events of a trace file."""

    unreadable: str | None = None
    """The reason why the file cannot be read; the other fields then have their defaults."""
    size: int = 0
    """The size of the file, in bytes."""
    errors: list[str] = []
    """The profiler's error messages."""
    devices: list[str] = []
    """The names of the accelerators with a plane in the file."""
    device_events: int = 0
    """The number of events on accelerators."""
    breakdown: Breakdown | None = None
    """The mean step and its parts; null if the trace has no step markers."""
    operations: list[Operation] = []
    """The operations with the most self time, device operations first."""
    kinds: list[OperationKind] = []
    """The kinds of operations with the most self time, device operations first."""
    memory_peak_bytes: int | None = None
    """The peak memory use of a device's allocator, in bytes; null if the raw events do not contain it."""
    cut_steps: int | None = None
    """The number of leading steps that were copied to a smaller file (`CUT`), if the file is too large for xprof."""


class TraceAnalysis(Stored):
    """Analysis of one trace; `missing` has the reason for each null."""

    file: str | None = None
    """The trace file, relative to the trace's folder."""
    size: int = 0
    """The size of the file, in bytes."""
    failure: str | None = None
    """The reason why the trace is unusable (unreadable, or without device events), and how to fix it."""
    breakdown: Breakdown | None = None
    """The mean step and its parts from the raw events, computed alike for all devices and backends."""
    xprof_steps: XprofSteps | None = None
    """The mean step and its parts by xprof, for comparison with `breakdown`."""
    xprof_covers: str | None = None
    """The steps passed to xprof, as text, if the trace is too large for it."""
    operations: list[Operation] = []
    """The operations with the most self time, device operations first."""
    kinds: list[OperationKind] = []
    """The kinds of operations with the most self time, device operations first."""
    operations_by: str | None = None
    """The source of the operations: `xprof`, or `raw events` where xprof has no table."""
    input_wait_share: float | None = None
    """The share of the step spent waiting for input, 0 to 1, from the raw events."""
    input_verdict: str | None = None
    """The verdict on the input as text, from `input_wait_share`."""
    xprof_verdict: str | None = None
    """The verdict of xprof, which counts unexplained time as input: with JAX on a CPU, most of the step."""
    memory_peak_bytes: int | None = None
    """The peak memory use of a device's allocator, in bytes."""
    devices: list[str] = []
    """The names of the accelerators in the trace."""
    device_events: int = 0
    """The number of events on accelerators."""
    profiler_errors: list[str] = []
    """The profiler's error messages, including CUPTI's."""
    xprof_version: str | None = None
    """The version of xprof; null if xprof returned no result."""
    missing: dict[str, str] = {}
    """The fields that are null, each with the reason."""


class Capture(Stored):
    """Result of capturing a trace."""

    file: str | None = None
    """The trace file, relative to its folder; null if there is none, with the reason in `reason`."""
    reason: str | None = None
    """The reason why there is no trace, or the profiler's error."""
    first_step: int | None = None
    """The number of the first traced step, counted from 0 over all epochs."""
    steps: int = 0
    """The number of completely traced steps; fewer than requested if the training ended."""
    disturbed: list[int] = []
    """The numbers of the steps in which the profiler started, ran or stopped; their times are not used as samples."""
    start_s: float = 0.0
    """The time to start the profiler, in seconds."""
    stop_s: float = 0.0
    """The time to stop the profiler and write its file, in seconds."""
