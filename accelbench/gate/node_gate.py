"""Gate of one node: a measuring process with a hard time limit, and the answer from its files.

This process never touches a device, so that it answers in time even if a driver hangs.
"""

from __future__ import annotations

import errno
import math
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from time import monotonic, time
from types import FrameType
from typing import TypeVar

import psutil
from pydantic import ValidationError

from accelbench.environment.fields import facts
from accelbench.errors import reason_of
from accelbench.execution.process_group import kill_group
from accelbench.execution.store import RunInfo, RunStore, now
from accelbench.gate.answer import (
    EXIT_STATUS,
    GateAnswer,
    GateCheck,
    GateLevel,
    GateResource,
    GateStatus,
    summary_of,
    verdict_of,
)
from accelbench.gate.baseline import Baseline, BaselineHardware
from accelbench.gate.hardware import HardwareClass
from accelbench.gate.limits import LimitSources, judge_points
from accelbench.gate.reading import judge_health
from accelbench.gate.request import GateRequest, MeasurementProblem, PastMetrics, PlannedResources, Readings
from accelbench.output.format import seconds
from accelbench.profiling.child import child_environment, module_command
from accelbench.profiling.files import open_for_appending, read_regular, replace_file
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.records.stored import Stored

SECONDS: Mapping[GateLevel, float] = {"quick": 30.0, "standard": 120.0, "thorough": 900.0}
"""Time limit of each level in seconds."""
RESERVED_SHARE, MOST_RESERVED_S = 0.1, 5.0
"""Part of the time limit for the start of this process and for the answer."""
HUNG = "hung: no "
"""Part of the finding if a result is missing at its time limit, as in failed records."""
BUSY_ADVICE = "repeat the gate when the node is idle"
KILL_SECONDS = 1.0
"""Time for killed processes to end; a process in a hung driver may remain."""
LEAST_MEMORY_SHARE = 0.98
NOT_WRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ENOENT)
"""Errors of a temporary folder that cannot be written; ENOENT if Python's `tempfile` finds none that can."""
LOCK = "\0accelbench-gate:{}"
"""Name of the abstract Unix socket of the gates with this temporary folder; the kernel releases it when a gate ends."""
ATTRIBUTES = (
    *("cuda.driver", "cuda.driver_cuda", "system.os", "system.kernel", "system.container", "system.image"),
    *("cpu.governor", "memory.channels", "memory.huge_pages"),
    *("software.accelbench", "software.python", "software.blas"),
)
"""Facts of the environment by which nodes of a fleet are compared."""
S = TypeVar("S", bound=Stored)


@dataclass(frozen=True)
class GateSettings:
    """Settings of a gate."""

    level: GateLevel = "quick"
    only: tuple[GateResource, ...] = ()
    suite: Path | None = None
    """Suite instead of the level's."""
    baseline: Baseline | None = None
    baseline_name: str = ""
    history: Path | None = None
    """Folder of stored runs."""
    limit_s: float | None = None
    """Time limit in seconds, at most the limit of the level."""
    include_noisy: bool = False
    node: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Return the time limit in seconds."""
        return min(self.limit_s or SECONDS[self.level], SECONDS[self.level])


def check_node(settings: GateSettings) -> GateAnswer:
    """Return the answer about this node within the time limit; another gate on this node makes it unknown."""
    since_start = time() - psutil.Process().create_time()  # the imports count, too
    begin, started = monotonic() - max(0.0, since_start), now()
    try:
        with _lock() as acquired:
            if not acquired:
                found = "another gate is running on this node"
                busy = GateCheck(name="busy", kind="node", status="unknown", found=found)
                return _answer(settings, started, begin, [busy])
            with _signals_interrupt(), _temporary_folder() as folder:
                hung = _measure(settings, folder, begin)
                checks, info = _checks(settings, folder, hung)
                return _answer(settings, started, begin, checks, info)
    except OSError as error:
        return _answer(settings, started, begin, [_broken_system(error)])


def attributes_of(environment: Environment) -> dict[str, str]:
    """Return the facts of an environment by which nodes of a fleet are compared."""
    found = facts(environment)
    return {name: str(found[name]) for name in ATTRIBUTES if found.get(name) is not None}


@contextmanager
def _lock() -> Iterator[bool]:
    """Hold the node's lock in this block; yield False if another gate holds it."""
    name = LOCK.format(gettempdir())  # raises FileNotFoundError if no temporary folder can be written
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as holder:
        try:
            holder.bind(name)
        except OSError:
            yield False
        else:
            yield True


def _broken_system(error: OSError) -> GateCheck:
    """Return the check of an error of the operating system: without a writable temporary folder, the node is unfit."""
    reason = reason_of(error)
    if error.errno not in NOT_WRITABLE:
        return GateCheck(name="system", kind="node", status="unknown", found=f"system error: {reason}")
    found = f"the temporary folder cannot be written: {reason}"
    advice = "delete files, look for errors of the disk (dmesg | tail), or set TMPDIR to a writable folder"
    return GateCheck(name="temporary folder", kind="node", resource="disk", status="fail", found=found, advice=advice)


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM and SIGHUP, so that the gate deletes its files."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    folder = Path(mkdtemp(prefix="accelbench-gate-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measure(settings: GateSettings, folder: Path, begin: float) -> GateCheck | None:
    """Run the measuring process; return a check if it hung or ended early."""
    suite = settings.suite or Path(str(files("accelbench.gate") / "levels" / f"{settings.level}.toml"))
    request = GateRequest(
        suite=str(suite.absolute()),
        only=list(settings.only),
        limit_s=settings.seconds,
        include_noisy=settings.include_noisy,
        history=str(settings.history.absolute()) if settings.history else None,
    )
    replace_file(folder / "request.json", lambda new: new.write_text(request.model_dump_json(), encoding="utf-8"))
    log = open_for_appending(folder / "output.log", 0o600)
    process = subprocess.Popen(
        module_command("accelbench.gate.measuring", str(folder)),
        stdin=subprocess.PIPE,  # closed by the kernel when this process ends; the measuring process then cleans up
        stdout=log,
        stderr=log,
        start_new_session=True,  # Ctrl-C reaches only this process
        env=child_environment(TMPDIR=str(folder)),
    )
    os.close(log)
    reserved = min(RESERVED_SHARE * settings.seconds, MOST_RESERVED_S)
    try:
        status = process.wait(max(0.0, begin + settings.seconds - reserved - monotonic()))
    except subprocess.TimeoutExpired:
        current = _read(folder / "current.json", MeasurementProblem)
        where = f"no result of {current.reason}" if current else "no answer of the health checks or drivers"
        found = f"hung: {where} within {seconds(settings.seconds)}"
        advice = "drain the node and read its kernel log: dmesg | tail"
        return _slow_or_hung(GateCheck(name="hung", kind="node", status="fail", found=found, advice=advice), folder)
    finally:
        _kill(process)
    if status == 0:
        return None
    last = _last_line(folder / "output.log") or f"exit status {status}"
    return GateCheck(name="measurement", kind="node", status="unknown", found=f"the measurement ended early: {last}")


def _slow_or_hung(check: GateCheck, folder: Path) -> GateCheck:
    """Return the check of a missing result; unknown if the node was busy at the start, and may only be slow."""
    busy = _read(folder / "busy.json", MeasurementProblem)
    if busy is None or HUNG not in check.found:
        return check
    found = f"{check.found}; the node is busy: {busy.reason}"
    return check.model_copy(update={"status": "unknown", "found": found, "advice": BUSY_ADVICE})


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the process with its group and its descendants, and wait briefly for their end."""
    descendants: list[psutil.Process] = []
    with suppress(psutil.Error):
        descendants = psutil.Process(process.pid).children(recursive=True)
    if process.poll() is None:
        kill_group(process.pid)
    for each in descendants:
        with suppress(psutil.Error):
            each.kill()
    psutil.wait_procs(descendants, KILL_SECONDS)
    with suppress(subprocess.TimeoutExpired):
        process.wait(KILL_SECONDS)
    assert process.stdin is not None
    process.stdin.close()


def _last_line(path: Path) -> str:
    with suppress(OSError):
        lines = read_regular(path, 64 << 20).decode("utf-8", errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
    return ""


def _read(path: Path, model: type[S]) -> S | None:
    """Return the content of a file of the measuring process; None if it was not written."""
    try:
        return model.model_validate_json(read_regular(path))
    except (OSError, ValidationError):
        return None


def _checks(settings: GateSettings, folder: Path, hung: GateCheck | None) -> tuple[list[GateCheck], RunInfo | None]:
    """Return all checks, and the information of a run of this node."""
    busy = _read(folder / "busy.json", MeasurementProblem)
    if busy and not settings.include_noisy:
        found, advice = f"busy: {busy.reason}", f"{BUSY_ADVICE}, or add --include-noisy"
        return [GateCheck(name="busy", kind="node", status="unknown", found=found, advice=advice)], None
    checks = [hung] if hung else []
    problems = _read(folder / "problems.json", Readings) or Readings()
    checks += [
        GateCheck(name="measurement", kind="node", resource=each.resource, status="unknown", found=each.reason)
        for each in problems.problems
    ]
    before, after = (_read(folder / f"{name}.json", Readings) or Readings() for name in ("before", "after"))
    checks += judge_health(before.readings, after.readings)
    stores = [RunStore(path.parent) for path in sorted((folder / "runs").glob("*/run.json"))]
    planned = {store.path.name: _read(folder / f"{store.path.name}.json", PlannedResources) for store in stores}
    resources = {point: of for each in planned.values() if each for point, of in each.resources.items()}
    infos = [store.info() for store in stores]
    info = infos[0] if infos else None
    hardware = None
    if info and settings.baseline:
        found_hardware, check = check_hardware(settings.baseline, HardwareClass.of(info))
        hardware = found_hardware
        checks.append(check)
    past = _read(folder / "history.json", PastMetrics) or PastMetrics()
    limits = LimitSources(hardware, settings.baseline_name, {each.point: each for each in past.metrics})
    for store, of in zip(stores, infos, strict=True):
        of_records = judge_points(store, of, resources, limits, settings.include_noisy)
        checks += [_slow_or_hung(check, folder) if check.status == "fail" else check for check in of_records]
    return checks, info


def check_hardware(baseline: Baseline, here: HardwareClass) -> tuple[BaselineHardware | None, GateCheck]:
    """Return the node's class in the baseline, and the check that its hardware is complete."""
    found = baseline.of_machine(here.machine)
    status: GateStatus = "pass"
    if found is None:
        lost = next((missing for each in baseline.hardware if (missing := each.missing_from(here))), [])
        known = "; ".join(each.machine for each in baseline.hardware)
        status = "fail" if lost else "unknown"
        text = f"missing: {', '.join(lost)}" if lost else f"{here.machine} is not in the baseline ({known})"
    elif here.memory_bytes < LEAST_MEMORY_SHARE * found.memory_bytes:
        status, text = "fail", f"{here.memory_bytes >> 20:,} MiB of {found.memory_bytes >> 20:,} MiB memory"
    elif (here.memory_channels or math.inf) < (found.memory_channels or 0):
        status, text = "fail", f"{here.memory_channels} of {found.memory_channels} memory channels"
    else:
        text = here.machine
    return found, GateCheck(name="hardware", kind="node", status=status, found=f"hardware: {text}")


def _answer(
    settings: GateSettings, started: datetime, begin: float, checks: Sequence[GateCheck], info: RunInfo | None = None
) -> GateAnswer:
    verdict = verdict_of(checks)
    status = EXIT_STATUS[verdict]
    assert status in (0, 1, 2)
    return GateAnswer(
        id=f"{started:%Y%m%d-%H%M%S}-{os.urandom(4).hex()}",
        node=settings.node,
        level=settings.level,
        verdict=verdict,
        exit_status=status,  # type: ignore[arg-type]  # checked
        summary=summary_of(checks, verdict),
        started=started,
        wall_s=monotonic() - begin,
        hardware=HardwareClass.of(info) if info else None,
        attributes={**(attributes_of(info.environment) if info else {}), **settings.tags},
        checks=list(checks),
    )
