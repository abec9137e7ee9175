"""Diagnosis of a user's script: the stored run, and its answer in the terminal."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from accelbench.errors import RunBroken, UserError, reason_of
from accelbench.execution.plan import CEILINGS, ceilings_of
from accelbench.execution.progress import Progress
from accelbench.execution.runner import run_plan
from accelbench.execution.store import RUNS, RunInfo, RunStore, Settings, new_run_id, now
from accelbench.execution.suite import KERNEL_ROUNDS, load_suite
from accelbench.output.console import PlainConsole, say
from accelbench.output.format import percent, read
from accelbench.output.plain_text import one_line
from accelbench.profiling.analysis.course import course_of
from accelbench.profiling.analysis.roofline import ceilings as ceilings_among
from accelbench.profiling.analysis.roofline import share_of_ceiling
from accelbench.profiling.devices import kinds
from accelbench.profiling.files import read_regular
from accelbench.profiling.machine.environment.collect import collect
from accelbench.profiling.measure.script.judge import flops_of, mean_examples, memory_of, profile_of, timing_of
from accelbench.profiling.measure.script.launch import exchange_folder, rank_variables, signals_passed_to, start
from accelbench.profiling.measure.script.observe import FEWEST_STEPS, WARMUP_STEPS, ScriptObserver
from accelbench.profiling.measure.script.running import (
    SENSOR_S,
    ProcessObservation,
    ProcessUnavailable,
    RunningProcess,
    observe_process,
)
from accelbench.profiling.records.bottleneck import Bottleneck
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Profile, Record
from accelbench.profiling.records.script import SCRIPT, ScriptProfile
from accelbench.profiling.records.stored import readable
from accelbench.profiling.records.telemetry import Telemetry
from accelbench.profiling.records.work import Bound as WorkBound
from accelbench.profiling.records.work import Work
from accelbench.report.script_answer import answer_lines, memory_lines, process_lines
from accelbench.results.earlier_ceilings import earlier_ceilings

STOP_S = 10.0
"""Seconds for the script to end after SIGTERM; then it is killed."""
KILLED = "the kernel killed the script, because the memory of the host or of its control group was exhausted"


def diagnose(
    command: Sequence[str], out: Path | None, seconds: float, experiments: bool, stop: bool, ceilings: bool = False
) -> int:
    """Run the command, diagnose it, store the run and return the command's exit status.

    With `ceilings`, the rate of the script's arithmetic is compared with the ceiling of the device, which is measured
    after the script if no run of the last hour has it.
    """
    if shutil.which(command[0]) is None:
        raise UserError(f"cannot start {command[0]}: it is not an executable program{_advice(command)}")
    store, ranked = new_store(out, command), rank_variables(command) is not None
    with exchange_folder(store.path if ranked else None) as exchange:
        try:
            process = start(command, exchange)
        except OSError as error:
            store.close()
            raise RunBroken(f"cannot start {command[0]}: {reason_of(error)}") from error
        with signals_passed_to(process):
            record, kills = None, kernel_kills()
            observer = ScriptObserver(
                lambda: process.poll() is None, exchange, store.path, seconds, experiments, ranked
            )
            ceilings = ceilings and not ranked  # ranks share the cores of a host in an unknown way
            with _errors_printed():
                observer.observe()
                record = answer(store, observer, name_of(command), ceilings)
            if stopped := stop and process.poll() is None:
                end(process)
            status = process.wait()
        with _errors_printed():
            if record is not None:
                _add_end(store, observer, record, status == -signal.SIGKILL and kernel_kills() > kills)
    if stopped and (ranked or status == -signal.SIGTERM):  # launchers report the signal in various ways
        status = 0
    if status >= 0:
        with _errors_printed():
            add_ceilings(store)
    store.close()
    return status if status >= 0 else 128 - status


@contextmanager
def _errors_printed() -> Iterator[None]:
    """Print an error of the diagnosis, which must neither end the script nor change its exit status."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - see above
        say(f"accelbench: the diagnosis failed: {one_line(f'{type(error).__name__}: {error}')}", stderr=True)


def diagnose_process(pid: int, out: Path | None, seconds: float) -> None:
    """Observe a running process for the given seconds, store the run and print what its time is spent on."""
    try:
        process = RunningProcess.find(pid)
    except ProcessUnavailable as error:
        raise UserError(str(error)) from None
    name = name_of(process.command)
    store = new_store(out, process.command)
    found = observe_process(process, store.path / "host" / "process", seconds)
    info, point = store.info(), point_of(name, "gpu" if found.cards else "cpu")
    record = _record_of_process(info, point, found)
    store.append(record)
    _finish(store, point, found.elapsed_s)
    store.close()
    if found.host.step_thread is None:
        raise RunBroken(f"process {pid} was not sampled: {'; '.join(found.missing[:2])}")
    for line in process_lines(pid, record):
        say(f"accelbench: {line}", stderr=True)
    flames = found.host.files.get("flamegraph")
    say(f"accelbench: {f'flame graph {store.path}/host/process/{flames}' if flames else store.path}", stderr=True)


def _record_of_process(info: RunInfo, point: Point, found: ProcessObservation) -> Record:
    reason = "steps of a running process are not observed: start the script by 'accelbench diagnose' for a bottleneck"
    waiting, host, threads = found.lines
    script = ScriptProfile(waiting_lines=waiting, host_lines=host, thread_lines=threads, missing=found.missing)
    return Record(
        point=point,
        figure="time",
        status="skipped",
        reason=reason,
        started=info.created,
        elapsed_s=found.elapsed_s,
        telemetry=Telemetry(interval_s=SENSOR_S, gauges=found.gauges, counters={}),
        profile=Profile(
            bottleneck=Bottleneck(reason=reason),
            host=found.host,
            host_folder="host/process",
            elapsed_s=found.elapsed_s,
            script=script,
        ),
    )


def _advice(command: Sequence[str]) -> str:
    return f" (write 'accelbench diagnose python {shlex.join(command)}')" if command[0].endswith(".py") else ""


def end(process: subprocess.Popen[bytes]) -> None:
    """End a script by SIGTERM, or by SIGKILL after `STOP_S`."""
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()


def name_of(command: Sequence[str]) -> str:
    """Return the name of the script in a command: `train.py`, `package.module`, or the program."""
    if rank_variables(command):
        scripts = [word for word in command if word.endswith(".py")]
        return os.path.basename((scripts or command)[0])
    words = iter(command)
    next(words)
    for word in words:
        if word == "-m":
            return next(words, command[0])
        if not word.startswith("-"):
            return os.path.basename(word)
    return os.path.basename(command[0])


def new_store(out: Path | None, command: Sequence[str]) -> RunStore:
    """Create the run of a diagnosis."""
    run_id = new_run_id("diagnose")
    info = RunInfo(
        run_id=run_id,
        created=now(),
        status="running",
        command=[*map(readable, ["accelbench", *sys.argv[1:]])],
        suite=None,
        device="cpu",
        settings=Settings(ceilings=False),
        plan=[point_of(name_of(command), "cpu")],
        environment=collect(),
    )
    return RunStore.create(out or RUNS / run_id, info)


def point_of(name: str, device: str) -> Point:
    """Return the point of a script; its device is `cpu` if it is of no known kind."""
    return Point(f"{SCRIPT}{readable(name)}", device if device in kinds() else "cpu", {})


def answer(store: RunStore, found: ScriptObserver, name: str, ceilings: bool = False) -> Record:
    """Store the record, write the report, and print the answer on stderr, which the script's output does not share.

    With `ceilings`, those of a run of the last hour are used, if there is one.
    """
    point = point_of(name, found.device)
    profile = profile_of(found, point)
    record = record_of(found, point, store.info().created).model_copy(update={"profile": profile})
    store.append(record)
    _finish(store, point, found.elapsed_s)
    if ceilings and record.timing and record.bound.metric:
        _reuse_ceilings(store, record)
    for line in answer_lines(record):
        say(f"accelbench: {line}", stderr=True)
    if record.bound.metric:
        say(f"accelbench: {arithmetic_line(store, record)}", stderr=True)
    if record.timing:
        _report(store)
    else:
        say(f"accelbench: run {store.path}", stderr=True)
    return record


def _add_end(store: RunStore, found: ScriptObserver, record: Record, killed: bool) -> None:
    """Store and print the memory again if the script ended out of memory after the answer; `killed` by the kernel."""
    found.events.read()
    memory = memory_of(found)
    if killed:
        memory = memory.model_copy(update={"exhausted": KILLED})
    assert record.profile is not None
    assert record.profile.script is not None
    if memory.exhausted in (None, record.profile.script.memory.exhausted):
        return
    script = record.profile.script.model_copy(update={"memory": memory})
    profile = record.profile.model_copy(update={"script": script})
    store.append(record.model_copy(update={"profile": profile}))
    for line in memory_lines(memory):
        say(f"accelbench: {line}", stderr=True)


def kernel_kills() -> int:
    """Return the number of processes that the kernel has killed because memory was exhausted; 0 if unknown."""
    try:
        text = read_regular(Path("/proc/vmstat")).decode("ascii")
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill ")), 0)


def record_of(found: ScriptObserver, point: Point, started: datetime) -> Record:
    """Return the record of the observed steps, without a profile; `failed` with the reason if they are too few."""
    timing = timing_of(found.untouched) if len(found.untouched) >= FEWEST_STEPS else None
    examples, counted = mean_examples(found.untouched), flops_of(found)
    flops, dtype = counted or (None, None)
    return Record(
        point=point,
        figure="items" if examples else "time",
        bound=WorkBound("arithmetic", dtype=dtype) if dtype else WorkBound(),
        status="measured" if timing else "failed",
        reason=None if timing else _no_timing(found),
        started=started,
        elapsed_s=found.elapsed_s,
        work=Work(flops=flops, items=examples, item="examples") if flops or examples else None,
        timing=timing,
    )


def _finish(store: RunStore, point: Point, elapsed_s: float) -> None:
    changes = {"status": "finished", "plan": [point], "device": point.device, "wall_s": elapsed_s}
    store.write_info(store.info().model_copy(update=changes))


def _reuse_ceilings(store: RunStore, record: Record) -> None:
    """Store the ceilings that bound the record from a run of the last hour; if there is none, they are to be measured.

    `add_ceilings` measures them after the script, which would otherwise be disturbed.
    """
    info, device = store.info(), record.point.device
    settings = info.settings.model_copy(update={"ceilings": True})
    earlier = earlier_ceilings(_ceilings_of(record), Settings(rounds=KERNEL_ROUNDS), device, info.environment)
    store.write_info(info.model_copy(update={"settings": settings, "earlier_ceilings": earlier}))


def _ceilings_of(record: Record) -> list[Point]:
    bound = record.bound
    assert bound.metric
    return ceilings_of({(record.point.device, bound.metric, bound.dtype, bound.cores)})


def add_ceilings(store: RunStore) -> None:
    """Measure the ceilings that `answer` did not find, add them to the run, and print the share of them."""
    info = store.info()
    record = next((record for record in store.lines() if record.bound.metric), None)
    if record is None or not info.settings.ceilings or info.earlier_ceilings:
        return
    points = [replace(point, seed=info.settings.seed) for point in _ceilings_of(record)]
    if not points:
        return
    say(f"accelbench: measuring the ceiling of {record.bound.dtype} arithmetic (--no-ceilings skips it)", stderr=True)
    limit_s = load_suite(CEILINGS).max_seconds.get(record.point.device, info.settings.max_seconds)
    settings = info.settings.model_copy(update={"rounds": KERNEL_ROUNDS, "max_seconds": limit_s})
    try:
        with TemporaryDirectory(prefix="accelbench-") as folder:
            changes = {"plan": points, "settings": settings}
            measured = RunStore.create(Path(folder, "ceilings"), info.model_copy(update=changes))
            run_plan(measured, Progress(PlainConsole(stderr=True, quiet=True)))
            for ceiling in measured.lines():
                store.append(ceiling)
            measured.close()
    except KeyboardInterrupt:
        return
    store.write_info(info.model_copy(update={"plan": [*points, *info.plan]}))
    say(f"accelbench: {arithmetic_line(store, record)}", stderr=True)
    _report(store, written="")


def arithmetic_line(store: RunStore, record: Record) -> str:
    """Return the FLOPs of a step, their rate, and the share of the ceiling, if the run has one."""
    info, rate = store.info(), record.rate("flops")
    assert record.work is not None
    text = f"{read(record.work.flops or 0.0, 'FLOP')} a step in {record.bound.dtype}"
    if rate is None:
        return text
    text = f"{text}, {read(rate, 'FLOP/s')}"
    earlier = info.earlier_ceilings.records if info.earlier_ceilings else []
    records = [*store.points(), *earlier]
    if not info.settings.ceilings or not any(each.ceiling for each in records):
        return text
    found = ceilings_among(records, [course_of(each) for each in records])
    share = share_of_ceiling(record, found)
    if share.shown is None:
        return f"{text}; share of the ceiling unknown: {share.reason}"
    of = f"{percent(share.shown)} of this machine's measured {share.of}"
    ceiling = str(read(share.bound or 0.0, "FLOP/s"))
    if share.value is None:  # noise only slows, so that the ceiling is higher
        return f"{text}: at most {of} ({ceiling}, noisy)"
    return f"{text}: {of} ({ceiling})"


def _report(store: RunStore, written: str = "accelbench: report ") -> None:
    """Write the report; print its path after the text `written`, if there is one."""
    from accelbench.report import write_report

    try:
        path = write_report(store)
        if written:
            say(f"{written}{path}", stderr=True)
    except (RunBroken, OSError) as error:
        say(f"accelbench: {one_line(str(error))}", stderr=True)


def _no_timing(found: ScriptObserver) -> str:
    """Return the reason for a missing step time."""
    if found.events.error:
        return f"the observation ended with an error: {found.events.error}"
    if found.events.pid is None:
        who = "the launcher started no rank on this host with a" if found.ranked else "the command started no"
        return f"{who} Python interpreter that reads PYTHONPATH (options -I, -E, -S)"
    if not found.events.steps:
        return (
            "no training step was found: no optimizer of PyTorch or Keras, no training function compiled by JAX or "
            "TensorFlow, and no fit of Keras. Mark the loop: "
            "for batch in accelbench.steps(loader)"
        )
    steps, needed = len(found.events.steps) + 1, 1 + WARMUP_STEPS + FEWEST_STEPS
    return f"too few steps: the script ended after {steps} of the {needed} needed steps"
