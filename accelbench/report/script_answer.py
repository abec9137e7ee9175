"""Answer of `accelbench diagnose` as text, for the terminal and the page."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from accelbench.output.format import counted, percent, read
from accelbench.profiling.records.bottleneck import Bound
from accelbench.profiling.records.record import Profile, Record
from accelbench.profiling.records.script import WORKERS, CodeLine, ScriptMemory, ScriptProfile, ThreadLines
from accelbench.profiling.records.timing import Timing
from accelbench.report.bottleneck_text import CONFIRMED, experiment_text, experiments_of

VERDICTS: dict[Bound, str] = {"device-bound": "compute-bound", "dispatch-bound": "host-bound"}
"""Names of bounds where a script's answer differs from the record."""
LINES = 2
"""Number of lines of code that are printed."""


def answer_lines(record: Record) -> Iterator[str]:
    """Yield the lines of the answer."""
    profile, timing = record.profile, record.timing
    assert profile is not None
    assert profile.script is not None
    if timing is None:
        yield f"no answer: {record.reason}"
    else:
        yield _speed(timing, record)
        yield from _verdict(profile, profile.script)
    yield from compilation_lines(profile.script)
    yield from _places(host_time(profile.script), profile.script.host_lines)
    yield from thread_lines(profile.script)
    yield from rank_lines(profile.script, timing)
    yield from memory_lines(profile.script.memory)
    yield from profile.script.missing[:3]


def compilation_lines(script: ScriptProfile) -> Iterator[str]:
    """Yield the line on further compilations of the step, if there were any."""
    if script.recompiled:
        again = f"{counted(script.recompiled, 'time')}, {read(script.recompiled_s, 's')}"
        yield f"JAX compiled the step again ({again}): keep shapes and types of its arguments the same in all steps"


def rank_lines(script: ScriptProfile, timing: Timing | None) -> Iterator[str]:
    """Yield the lines on several ranks: which one is slow, and in which part of a step."""
    if script.world == 1:
        return
    found, slow = [each for each in script.ranks if each.parts], script.slow_rank
    if not found or timing is None:
        yield f"Ranks: {script.world}, not compared; the answer is of the first one on this host"
        return
    elsewhere = f" of {script.world}" if len(found) < script.world else ""
    parts = []
    for part in found[0].parts:
        seconds = [each.parts[part] for each in found if part in each.parts]
        parts.append(f"{part} {read(min(seconds), 's')} to {read(max(seconds), 's')}")
    yield f"Ranks: {len(found)}{elsewhere} compared over {found[0].steps} steps: {', '.join(parts)}"
    if slow is None:
        yield "No rank is slower than the others in a part of a step that does not wait for them"
    else:
        delay = read(slow.delay_s, "s", slow.delay_low, slow.delay_high)
        share = percent(slow.delay_s / timing.execution.seconds)
        yield (
            f"Rank {slow.rank} is slow in {slow.part}: {delay} ({percent(slow.relative)}) longer than in the other "
            f"ranks; they wait for it, {share} of a step"
        )


def memory_lines(memory: ScriptMemory) -> Iterator[str]:
    """Yield the lines on the peaks of memory, and on the largest variables of a script that ended out of memory."""
    peaks = []
    if memory.device_peak is not None:
        limit = f" of {read(memory.device_limit, 'B')}" if memory.device_limit else ""
        peaks.append(f"device {read(memory.device_peak, 'B')}{limit}")
    if memory.device_reserved and memory.fragmentation is not None:
        unused = f"{percent(memory.fragmentation)} of it unused"
        peaks.append(f"{read(memory.device_reserved, 'B')} reserved on the device, {unused}")
    if memory.host_peak is not None:
        peaks.append(f"host {read(memory.host_peak, 'B')}")
    if peaks:
        yield f"Peak memory: {', '.join(peaks)}"
    if memory.exhausted:
        yield f"Out of memory: {memory.exhausted}"
    if memory.largest:
        sizes = (f"{each.name} {read(each.bytes, 'B')} ({counted(each.arrays, 'array')})" for each in memory.largest)
        yield f"Largest variables: {', '.join(sizes)}"


def _speed(timing: Timing, record: Record) -> str:
    step = timing.execution
    parts = [f"{read(step.seconds, 's', step.low, step.high)} a step ({timing.steady and timing.steady.steps} steps)"]
    if record.work and record.work.items:
        parts.append(f"{read(record.work.items / step.seconds, 'examples/s')}")
    return ", ".join(parts)


def _verdict(profile: Profile, script: ScriptProfile) -> Iterator[str]:
    found = profile.bottleneck
    if found.bound is None:
        yield f"Undecided: {found.reason}"
    else:
        names = [VERDICTS.get(bound, bound) for bound in (found.bound, *found.beside)]
        shares = ", ".join(f"{cause} {percent(share)}" for cause, share in found.shares.items() if share >= 0.005)
        checked = f", {CONFIRMED}" if found.confirmed else ""
        yield f"{' and '.join(names).capitalize()}{checked}: {shares or found.quota_text or ''} of a step"
    yield from waiting_lines(script)
    for cause, steps in experiments_of(found).items():
        yield experiment_text(cause, steps)
    yield from _places("the waiting", script.waiting_lines)
    if found.help:
        yield f"Try: {found.help}"


def waiting_lines(script: ScriptProfile) -> Iterator[str]:
    """Yield the line on the wait for input, if it was observed."""
    if script.waiting is not None:
        low, high = script.waiting_interval or (script.waiting, script.waiting)
        yield f"{percent(script.waiting)} of a step waits for the next batch ({percent(low)} to {percent(high)})"


def host_time(script: ScriptProfile) -> str:
    """Return what the script's `host_lines` are shares of, as text."""
    return "the host's time" if script.waiting is None else "the host's time without input"


def thread_lines(script: ScriptProfile) -> Iterator[str]:
    """Yield one line on each other thread, and on the worker processes, that run the user's own code."""
    for each in script.thread_lines:
        yield from _places(thread_name(each), each.lines)


def thread_name(found: ThreadLines) -> str:
    """Return a name such as "the worker processes" or "thread prefetch"."""
    return f"the {found.name}" if found.name == WORKERS else f"thread {found.name}"


def _places(what: str, lines: Sequence[CodeLine]) -> Iterator[str]:
    if lines:
        found = ", ".join(f"{each.file}:{each.line} {each.function} {percent(each.share)}" for each in lines[:LINES])
        yield f"Lines of {what}: {found}"


def process_lines(pid: int, record: Record) -> Iterator[str]:
    """Yield the lines of the answer on a running process."""
    profile = record.profile
    assert profile is not None
    assert profile.host is not None
    assert profile.script is not None
    counters, shares = profile.host.counters, profile.host.step_thread or {}
    usage = f"{counters.cpu_s / counters.elapsed_s:.2f}" if counters.cpu_s is not None else "unknown"
    waited = counters.run_queue_wait_s
    contended = waited / (waited + counters.cpu_s) if waited and counters.cpu_s else 0.0
    waits = f"; threads ready to run waited {percent(contended)} of their time for a CPU" if contended else ""
    yield f"process {pid}, {record.elapsed_s:.0f} s: {usage} of {len(os.sched_getaffinity(0))} CPUs in use{waits}"
    parts = sorted(shares.items(), key=lambda part: -part[1])
    yield f"Main thread: {', '.join(f'{name} {percent(share)}' for name, share in parts if share >= 0.005)}"
    for name, gauge in record.telemetry.gauges.items() if record.telemetry else ():
        if name.startswith(("gpu.utilization", "gpu.power")):
            yield f"{name}: {gauge.median:.0f} {gauge.unit} ({gauge.minimum:.0f} to {gauge.maximum:.0f})"
    yield from _places("the input", profile.script.waiting_lines)
    yield from _places("the main thread without input", profile.script.host_lines)
    yield from thread_lines(profile.script)
    yield f"No bottleneck: {record.reason}"
