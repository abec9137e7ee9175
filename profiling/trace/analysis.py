"""Analysis of a trace without TensorBoard: step breakdown, operations, and xprof's verdict on the input pipeline.

Two separate processes read the trace, so that their memory is freed: one reads the raw events of the complete file, the
other runs xprof's converters if xprof supports the format.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from pydantic import ValidationError

from accelbench.profiling.child import child_command, child_environment
from accelbench.profiling.devices import device_kind
from accelbench.profiling.machine.packages import install_extra
from accelbench.profiling.records.point import Device
from accelbench.profiling.records.stored import Stored
from accelbench.profiling.records.trace import EventFindings, TraceAnalysis, XprofFindings
from accelbench.profiling.trace.formats import FORMATS, format_of, newest

Findings = TypeVar("Findings", bound=Stored)

TIME_LIMIT_S = 120.0
OUTPUT_LINES = 3
"""Number of lines of a failed reader's stderr in the message."""

INPUT_BOUND = ((0.2, "highly input-bound"), (0.05, "moderately input-bound"), (0.0, "not input-bound"))
"""Minimum share of the step for each verdict, as in xprof (op_stats_to_input_pipeline_analysis.cc)."""


def analyze(folder: Path, device: Device) -> TraceAnalysis:
    """Return the analysis of the newest trace in the folder of a run on `device`; errors are in `failure`."""
    file = newest(folder)
    if file is None:
        patterns = " and no ".join(form.files for form in FORMATS)
        return TraceAnalysis(failure=f"no trace was written: no {patterns} in {folder}")
    with TemporaryDirectory() as scratch:
        cut = Path(scratch) / file.name
        events = run_reader("accelbench.profiling.trace.events", [str(file), str(cut)], EventFindings)
        if isinstance(events, str) or events.unreadable:
            reason = events if isinstance(events, str) else events.unreadable
            return TraceAnalysis(file=str(file.relative_to(folder)), failure=reason)
        converted = read_with_xprof(file if events.cut_steps is None else cut, events)
    return combine(str(file.relative_to(folder)), device, events, converted)


def read_with_xprof(file: Path, events: EventFindings) -> XprofFindings | str:
    """Return xprof's findings, or the reason why there are none."""
    if no_xprof := format_of(file.name).no_xprof:
        return no_xprof
    if find_spec("xprof") is None:
        return f"xprof is not installed: {install_extra('trace')}"
    if not file.exists():
        return f"the trace is too large for xprof ({events.size:,} bytes) and has no step markers at which to cut it"
    return run_reader("accelbench.profiling.trace.converters", [str(file)], XprofFindings)


def combine(file: str, device: Device, events: EventFindings, converted: XprofFindings | str) -> TraceAnalysis:
    """Return the combined findings of both readers."""
    missing: dict[str, str] = {}
    no_operations = "the trace has no operations"
    no_memory = "the trace has no device allocations (a CPU's allocations are not traced)"
    if isinstance(converted, str):
        missing |= dict.fromkeys(("xprof_steps", "xprof_verdict"), converted)
        if not format_of(file).no_xprof:
            no_operations, no_memory = f"{converted}, and {no_operations}", converted
        converted = XprofFindings()
    elif converted.steps is None:
        missing["xprof_steps"] = "xprof found no steps in the trace"
    source = converted if converted.operations else events
    if not source.operations:
        missing["operations"] = no_operations
    memory_peak = events.memory_peak_bytes or converted.memory_peak_bytes
    if memory_peak is None:
        missing["memory_peak_bytes"] = no_memory
    if events.breakdown is None:
        missing["breakdown"] = "the trace has no step marker: no step was traced completely"
    waiting = events.breakdown.share("input_wait") if events.breakdown else None
    return TraceAnalysis(
        file=file,
        size=events.size,
        failure=device_failure(device, events),
        breakdown=events.breakdown,
        xprof_steps=converted.steps,
        xprof_covers=f"the first {events.cut_steps} steps of the trace" if events.cut_steps else None,
        operations=source.operations,
        kinds=source.kinds,
        operations_by=("xprof" if converted.operations else "raw events") if source.operations else None,
        input_wait_share=waiting,
        input_verdict=None if waiting is None else verdict(waiting),
        xprof_verdict=converted.input_verdict,
        memory_peak_bytes=memory_peak,
        devices=events.devices,
        device_events=events.device_events,
        profiler_errors=events.errors,
        xprof_version=converted.version,
        missing=missing,
    )


def verdict(waiting: float) -> str:
    """Return the input verdict as text, for the share of the step that waits for input."""
    found = next(text for minimum, text in INPUT_BOUND if waiting >= minimum)
    return f"{found}: {waiting:.1%} of the step waits for input"


def device_failure(device: Device, events: EventFindings) -> str | None:
    """Return the message for an accelerator's trace without events of it, with the remedy; None otherwise."""
    if device == "cpu" or events.device_events:
        return None
    errors = f" (errors of the profiler: {'; '.join(events.errors)})" if events.errors else ""
    return device_kind(device).missing_from_trace() + errors


def run_reader(module: str, arguments: Sequence[str], findings: type[Findings]) -> Findings | str:
    """Run a reader in a separate process; return its findings, or the reason why there are none."""
    command = child_command(module, *arguments)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=TIME_LIMIT_S, env=child_environment()
        )
    except subprocess.TimeoutExpired:
        return f"{module} exceeded its time limit of {TIME_LIMIT_S:.0f} s"
    except OSError as error:
        return f"{module} cannot be started: {error}"
    stderr = " ".join(done.stderr.strip().splitlines()[-OUTPUT_LINES:])
    if done.returncode:
        return f"{module} failed with exit status {done.returncode}: {stderr}"
    try:
        return findings.model_validate_json(done.stdout)
    except ValidationError:
        return f"{module} printed no valid findings: {stderr}"
