"""Analysis of a trace without TensorBoard: breakdown of a step, operations, and xprof's verdict on the input.

Two processes read the trace, so that their memory is freed: one reads the raw events of the whole file, the other runs
xprof's converters, if xprof supports the format.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from pydantic import ValidationError

from accelbench.profiling.child import child_command
from accelbench.profiling.devices import device_kind
from accelbench.profiling.records.point import Device
from accelbench.profiling.records.stored import Stored
from accelbench.profiling.records.trace import EventFindings, TraceAnalysis, XprofFindings
from accelbench.profiling.trace.formats import FORMATS, format_of, newest

Answer = TypeVar("Answer", bound=Stored)

TIME_LIMIT_S = 120.0
OUTPUT_LINES = 3
"""The number of last lines that are quoted of a reader that died."""

INPUT_BOUND = ((0.2, "highly input-bound"), (0.05, "moderately input-bound"), (0.0, "not input-bound"))
"""The least share of a step for each verdict; the bounds are xprof's (op_stats_to_input_pipeline_analysis.cc)."""


def analyze(folder: Path, device: Device) -> TraceAnalysis:
    """Read the newest trace under the folder of a run that used the device; nothing that is wrong with it raises."""
    file = newest(folder)
    if file is None:
        patterns = " and no ".join(form.files for form in FORMATS)
        return TraceAnalysis(failure=f"no {patterns} in {folder}: no trace was written")
    with TemporaryDirectory() as scratch:
        cut = Path(scratch) / file.name
        events = run_reader("accelbench.profiling.trace.events", [str(file), str(cut)], EventFindings)
        if isinstance(events, str) or events.unreadable:
            reason = events if isinstance(events, str) else events.unreadable
            return TraceAnalysis(file=str(file.relative_to(folder)), failure=reason)
        converted = read_with_xprof(file if events.cut_steps is None else cut, events)
    return combine(str(file.relative_to(folder)), device, events, converted)


def read_with_xprof(file: Path, events: EventFindings) -> XprofFindings | str:
    """Return what xprof makes of the file, or why it makes nothing."""
    if no_xprof := format_of(file.name).no_xprof:
        return no_xprof
    if find_spec("xprof") is None:
        return "xprof is not installed (it comes with tensorboard-plugin-profile)"
    if not file.exists():
        return f"the trace has no step markers to cut it by, and its {events.size:,} bytes are too many for xprof"
    return run_reader("accelbench.profiling.trace.converters", [str(file)], XprofFindings)


def combine(file: str, device: Device, events: EventFindings, converted: XprofFindings | str) -> TraceAnalysis:
    """Put both readers' findings together."""
    missing: dict[str, str] = {}
    no_operations = "the trace shows no operation"
    no_memory = "the trace holds no allocations of a device: a CPU's are not traced"
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
        missing["breakdown"] = "the trace holds no step marker: no step was traced from its beginning to its end"
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
    """Return whether the input holds a step back, in words, by the share of it that waits for input."""
    found = next(words for least, words in INPUT_BOUND if waiting >= least)
    return f"{found}: {waiting:.1%} of the step waits for input"


def device_failure(device: Device, events: EventFindings) -> str | None:
    """Return why a trace of an accelerator shows nothing of it, and what mends that."""
    if device == "cpu" or events.device_events:
        return None
    said = f" (the profiler says: {'; '.join(events.errors)})" if events.errors else ""
    return device_kind(device).missing_from_trace() + said


def run_reader(module: str, arguments: Sequence[str], answer: type[Answer]) -> Answer | str:
    """Run a reader in a process of its own; return its answer, or why it has none."""
    command = child_command(module, *arguments)
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TIME_LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"{module} took longer than {TIME_LIMIT_S:.0f} s"
    except OSError as error:
        return f"{module} could not be started: {error}"
    said = " ".join(done.stderr.strip().splitlines()[-OUTPUT_LINES:])
    if done.returncode:
        return f"{module} ended with status {done.returncode}: {said}"
    try:
        return answer.model_validate_json(done.stdout)
    except ValidationError:
        return f"{module} gave no answer: {said}"
