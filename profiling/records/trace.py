"""Records of a trace: its steps, operations, and reasons for what is unknown."""

from __future__ import annotations

from typing import Literal, get_args

from accelbench.profiling.records.stored import Stored

Part = Literal["kernel", "collective", "host_to_device", "device_to_host", "compile", "input_wait", "idle", "host"]
PARTS: tuple[Part, ...] = get_args(Part)
"""The parts of a step by precedence: a moment of a step belongs to the first of them that goes on then.

So a copy, a collective or an input counts only as far as no kernel hides it. What nothing explains is the host's:
Python, dispatch, the framework's runtime. Idle is a moment in which the host does nothing but wait, for a device that
has nothing to do.
"""
LAUNCHING: tuple[Part, ...] = ("compile", "idle", "host")
"""The parts in which the device has nothing to do, because the host has not started it."""


class Breakdown(Stored):
    """The mean step of a trace and the parts it is made of."""

    steps: int
    """The number of traced steps."""
    step_s: float
    """The seconds of the mean step."""
    parts: dict[Part, float]
    """The seconds of each part of the mean step; they add up to `step_s`."""
    of_steps: dict[Part, list[float]] = {}
    """The seconds of each part in each step, in the order of the steps; parts that took no time are left out."""
    kernels: float = 0.0
    """The number of kernels that were started in the mean step."""

    def share(self, part: Part) -> float:
        """Return the part's share of the step, 0 to 1."""
        return self.parts[part] / self.step_s if self.step_s else 0.0


class Operation(Stored):
    """All executions of one operation in the traced steps."""

    name: str
    """The operation's name, as the trace has it."""
    kind: str | None = None
    """The kind of operation where it is known: `MatMul`, `fusion`."""
    where: Literal["device", "host"]
    """Whether it ran on the device or on the host."""
    occurrences: int
    """The number of its executions in the traced steps."""
    self_s: float
    """The seconds of all executions without what they called, summed over threads and streams."""
    share: float | None = None
    """The part of the own time of all operations there, 0 to 1."""


class OperationKind(Stored):
    """All operations of one kind in the traced steps."""

    kind: str
    """The kind: xprof's, or what is left of an operation's name without the number that tells it from its like."""
    where: Literal["device", "host"]
    """Whether they ran on the device or on the host."""
    operations: int
    """The number of operations of this kind."""
    occurrences: int
    """The number of their executions."""
    self_s: float
    """The seconds of all executions without what they called, summed over threads and streams."""
    share: float
    """The part of the own time of all operations there, 0 to 1."""


class XprofSteps(Stored):
    """The mean step as xprof divides it."""

    steps: int
    """The number of steps that xprof found."""
    step_s: float
    """The seconds of the mean step."""
    parts: dict[str, float]
    """The seconds of each part of the mean step, by xprof's own names
    (`accelbench.profiling.trace.converters.COLUMNS`)."""


class XprofFindings(Stored):
    """The findings of xprof's converters in one trace."""

    version: str | None = None
    """The version of xprof."""
    hardware: str | None = None
    """The hardware that xprof took the trace to be of: `CPU_ONLY`, `GPU`, `TPU`."""
    steps: XprofSteps | None = None
    """The mean step as xprof divides it; null where it found no steps."""
    input_verdict: str | None = None
    """The verdict of xprof on the input, in its own words."""
    operations: list[Operation] = []
    """The operations that took the most time of their own, those of the device first."""
    kinds: list[OperationKind] = []
    """The kinds of all operations that took the most, those of the device first."""
    memory_peak_bytes: int | None = None
    """The most bytes that a device's allocator had given out at a time."""


class EventFindings(Stored):
    """The findings in the raw events of a whole file."""

    unreadable: str | None = None
    """The reason why the file cannot be read; the other fields then say nothing."""
    size: int = 0
    """The size of the file, in bytes."""
    errors: list[str] = []
    """The profiler's own complaints."""
    devices: list[str] = []
    """The names of the accelerators that the file has a plane of."""
    device_events: int = 0
    """The number of events that ran on accelerators."""
    breakdown: Breakdown | None = None
    """The mean step and its parts; null where no step was marked."""
    operations: list[Operation] = []
    """The operations that took the most time of their own, those of the device first."""
    kinds: list[OperationKind] = []
    """The kinds of all operations that took the most, those of the device first."""
    memory_peak_bytes: int | None = None
    """The most bytes that a device's allocator had given out at a time; null where the raw events do not say."""
    cut_steps: int | None = None
    """The number of steps, from the first, that were written to CUT because the file is too large for xprof."""


class TraceAnalysis(Stored):
    """The findings in one trace; what it does not say is null, and the reason is in `missing`."""

    file: str | None = None
    """The trace's file, within the trace's folder."""
    size: int = 0
    """The size of the file, in bytes."""
    failure: str | None = None
    """The reason why the trace is no evidence (unreadable, or nothing of the device in it), and what mends it."""
    breakdown: Breakdown | None = None
    """The mean step and its parts by the raw events, found the same way on every device and backend."""
    xprof_steps: XprofSteps | None = None
    """The mean step as xprof divides it, to set beside `breakdown`."""
    xprof_covers: str | None = None
    """The steps that xprof was given, in words, where the trace is too large for it."""
    operations: list[Operation] = []
    """The operations that took the most time of their own, those of the device first."""
    kinds: list[OperationKind] = []
    """The kinds of all operations that took the most, those of the device first."""
    operations_by: str | None = None
    """The source of the operations: `xprof`, or `raw events` where xprof has no table."""
    input_wait_share: float | None = None
    """The share of the step, 0 to 1, that waits for input, by the raw events."""
    input_verdict: str | None = None
    """The verdict on the input, in words, by `input_wait_share`."""
    xprof_verdict: str | None = None
    """The verdict of xprof: it takes for input whatever it cannot explain, on JAX most of a step on a CPU."""
    memory_peak_bytes: int | None = None
    """The most bytes that a device's allocator had given out at a time."""
    devices: list[str] = []
    """The names of the accelerators that the trace shows."""
    device_events: int = 0
    """The number of events that ran on accelerators."""
    profiler_errors: list[str] = []
    """The profiler's own complaints, CUPTI's refusals among them."""
    xprof_version: str | None = None
    """The version of xprof; null where it gave no answer."""
    missing: dict[str, str] = {}
    """The fields that are null, each with the reason."""


class Capture(Stored):
    """The outcome of one capture."""

    file: str | None = None
    """The trace's file, within its folder; null where `reason` says why."""
    reason: str | None = None
    """The reason why there is no trace, or what went wrong with the profiler."""
    first_step: int | None = None
    """The number of the first traced step, counted from 0 over all epochs."""
    steps: int = 0
    """The number of whole steps that were traced; fewer than asked for if the training ended."""
    disturbed: list[int] = []
    """The numbers of the steps that the profiler, its start or its stop ran in: their times are no samples."""
    start_s: float = 0.0
    """The seconds that starting the profiler took."""
    stop_s: float = 0.0
    """The seconds that stopping the profiler and writing its file took."""
