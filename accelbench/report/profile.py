"""Profile of a training workload in the report: bottleneck, trace analysis, host profile and links to files."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from markupsafe import Markup

from accelbench.environment.fields import LabelledValue
from accelbench.output.format import read
from accelbench.profiling.records.bottleneck import Bottleneck
from accelbench.profiling.records.record import Profile
from accelbench.profiling.records.trace import Operation, OperationKind, TraceAnalysis
from accelbench.profiling.text import format_bytes
from accelbench.profiling.trace.formats import format_of
from accelbench.report.bottleneck_text import advice, bottleneck_line, bottleneck_text
from accelbench.report.experiments import ExperimentPart, experiment_parts
from accelbench.report.flame_graph import flame_graph
from accelbench.report.host_profile import HostPart, host_part
from accelbench.report.rows import Row
from accelbench.report.samples_plot import step_times
from accelbench.report.script import ScriptPart, script_part
from accelbench.report.step_bars import Bar, bar_of_causes, bar_of_parts, bar_of_xprof

OPERATIONS, MAX_NAME = 10, 160
"""Maximum numbers of operations (and of kinds) listed for device and host, and of characters of a name."""

MISSING = {
    "breakdown": "the step-time breakdown",
    "xprof_steps": "xprof's breakdown",
    "xprof_verdict": "xprof's analysis of the input",
    "operations": "the top operations",
    "memory_peak_bytes": "the memory high-water mark",
}
FILES = {
    "flamegraph": "flame graph",
    "speedscope": "speedscope file",
    "flamegraph_native": "flame graph with native frames",
    "speedscope_native": "speedscope file with native frames",
}


@dataclass(frozen=True)
class ArtifactLink:
    """Link to a file of the run, relative to the page."""

    text: str
    href: str


@dataclass(frozen=True)
class TopOperation:
    name: str
    kind: str
    occurrences: str
    total: str
    each: str
    share: float | None


@dataclass(frozen=True)
class Operations:
    """Operations on the device or the host, by kind and individually."""

    where: str
    kinds: tuple[tuple[OperationKind, str], ...]
    """Kinds of operations, each with its self time as text."""
    longest: tuple[TopOperation, ...]


@dataclass(frozen=True)
class ProfiledRow:
    """Row with a profile, and the texts and drawings of its part of the page."""

    row: Row
    slug: str
    verdict: str
    line: str
    evidence: tuple[str, ...]
    help: str | None
    elapsed_s: float
    failures: tuple[str, ...]
    """Reasons why the trace is unusable, with advice."""
    causes: Bar | None
    """Step time by cause; None if the shares are unknown, or if `parts` has them in detail."""
    parts: Bar | None
    """Parts of the traced step; None without a usable trace."""
    by_xprof: Bar | None
    steps: Markup | None
    """Drawing of the duration of each step; None if there are too few."""
    flames: Markup | None
    """Flame graph of the host; None if its samples were not kept."""
    facts: tuple[LabelledValue, ...]
    operations: tuple[Operations, ...]
    operations_by: str
    host: HostPart | None
    experiments: tuple[ExperimentPart, ...]
    script: ScriptPart | None
    """Part of a user's script; None for accelbench's own workloads."""
    missing: tuple[str, ...]
    links: tuple[ArtifactLink, ...]
    tensorboard: str | None
    """Command that opens the files in TensorBoard."""
    shows_trace: bool
    """Whether TensorBoard shows the trace, and not only the curves."""

    @property
    def on_cpu(self) -> bool:
        return self.row.record.point.device == "cpu"


def profiled(row: Row, slug: str, run_id: str, folder: Path | None = None) -> ProfiledRow | None:
    """Return the page's contents for a row's profile; None if the row was not profiled.

    `folder` is the run's directory, which may have the samples of the host.
    """
    profile = row.record.profile
    if profile is None:
        return None
    found, trace = profile.bottleneck, profile.trace
    parts = bar_of_parts(trace.breakdown, found) if trace and trace.breakdown else None
    return ProfiledRow(
        row=row,
        slug=slug,
        verdict=bottleneck_text(profile),
        line=bottleneck_line(profile),
        evidence=tuple(_evidence(found)),
        help=advice(profile),
        elapsed_s=profile.elapsed_s,
        failures=tuple(_failures(profile)),
        causes=None if parts else bar_of_causes(profile, "step time by cause"),
        parts=parts,
        by_xprof=bar_of_xprof(trace.xprof_steps, trace.xprof_covers or "", found)
        if trace and trace.xprof_steps
        else None,
        steps=step_times(row.record, f"{slug}-steps"),
        flames=flame_graph(profile, folder, f"{slug}-flames", f"Flame graph of {row.record.point}") if folder else None,
        facts=tuple(_facts(trace)) if trace else (),
        operations=tuple(_operations(trace)) if trace else (),
        operations_by=(trace and trace.operations_by) or "the trace",
        host=host_part(profile.host) if profile.host else None,
        experiments=tuple(experiment_parts(row.record)),
        script=script_part(row.record),
        missing=tuple(dict.fromkeys(_missing(profile))),
        links=tuple(_links(profile)),
        tensorboard=f"accelbench tensorboard {shlex.quote(run_id)}" if _kept_trace(profile) else None,
        shows_trace=format_of(_kept_trace(profile)).no_xprof is None,
    )


def _evidence(found: Bottleneck) -> Iterable[str]:
    """Yield the texts that support the verdict, except the doubt, which is printed with the verdict."""
    for text in found.evidence:
        if text == found.shares_text and found.contention_text:
            yield f"before contention is separated, {text}"
        elif text != found.apart_text:
            yield text


def _failures(profile: Profile) -> Iterable[str]:
    if profile.capture is not None and profile.capture.reason:
        yield f"No trace: {profile.capture.reason}"
    if profile.trace is not None and profile.trace.failure:
        yield f"The trace is unusable: {profile.trace.failure}"


def _facts(trace: TraceAnalysis) -> Iterable[LabelledValue]:
    def fact(label: str, value: str | None, key: str) -> LabelledValue:
        reason = trace.missing.get(key) or trace.failure or "not in the trace"
        return LabelledValue(label, value, None if value else reason)

    yield fact("input", trace.input_verdict, "breakdown")
    yield fact("input, by xprof", trace.xprof_verdict, "xprof_verdict")
    peak = trace.memory_peak_bytes
    yield fact("memory high-water mark", None if peak is None else format_bytes(peak), "memory_peak_bytes")
    yield LabelledValue("devices in the trace", ", ".join(trace.devices) or "host only")
    events = f", {trace.device_events:,} events of a device" if trace.device_events else ""
    version = f", read by xprof {trace.xprof_version}" if trace.xprof_version else ""
    yield LabelledValue("trace", f"{format_bytes(trace.size)}{events}{version}")


def _operations(trace: TraceAnalysis) -> Iterable[Operations]:
    for where in ("device", "host"):
        longest = [_operation(operation) for operation in trace.operations if operation.where == where]
        kinds = [(kind, str(read(kind.self_s, "s"))) for kind in trace.kinds if kind.where == where]
        if longest:
            yield Operations(where, tuple(kinds[:OPERATIONS]), tuple(longest[:OPERATIONS]))


def _operation(operation: Operation) -> TopOperation:
    name = operation.name
    each = read(operation.self_s / operation.occurrences, "s") if operation.occurrences else None
    return TopOperation(
        name=name if len(name) <= MAX_NAME else f"…{name[1 - MAX_NAME :]}",
        kind=operation.kind or "",
        occurrences=f"{operation.occurrences:,}",
        total=str(read(operation.self_s, "s")),
        each=str(each or ""),
        share=operation.share,
    )


def _missing(profile: Profile) -> Iterable[str]:
    """Yield the missing parts of the profile with reasons, except the memory high-water mark, which has its own."""
    if profile.trace is not None:
        for name, reason in profile.trace.missing.items():
            if name != "memory_peak_bytes":
                yield f"{MISSING.get(name, name)}: {reason}"
        for error in profile.trace.profiler_errors:
            yield f"error of the profiler: {error}"
    yield from profile.missing
    if profile.script is not None:
        yield from profile.script.missing
    elif profile.host is None:
        yield "the host profile: not needed for the bottleneck, and not requested (--host-profile)"
    if profile.host is not None:
        yield from dict.fromkeys((*profile.host.missing, *profile.host.sampling.missing))
    if profile.capture is not None and profile.capture.file and profile.trace_folder is None:
        yield "the trace file: deleted after analysis (--trace keeps it)"
    if profile.host is not None and profile.host_folder is None:
        yield "the flame graph: not kept (--host-profile keeps it)"


def _kept_trace(profile: Profile) -> str:
    """Return the trace file's path within its directory; empty if it was not kept."""
    return (profile.trace_folder and profile.capture and profile.capture.file) or ""


def _links(profile: Profile) -> Iterable[ArtifactLink]:
    if profile.host is not None and profile.host_folder:
        for kind, text in FILES.items():
            if kind in profile.host.files:
                yield from _link(text, profile.host_folder, profile.host.files[kind])
    if trace := _kept_trace(profile):
        if format_of(trace).no_xprof:
            yield from _link(f"trace (with {format_of(trace).viewers})", profile.trace_folder or "", trace)
        yield from _link("folder of the trace", profile.trace_folder or "", "", folder=True)


def _link(text: str, *parts: str, folder: bool = False) -> Iterable[ArtifactLink]:
    """Yield the link if it stays in the run's directory; `./` keeps recorded text from being read as a URL scheme."""
    path = PurePosixPath(*parts)
    if not path.is_absolute() and ".." not in path.parts:
        yield ArtifactLink(text, f"./{quote(str(path), errors='replace')}{'/' * folder}")
