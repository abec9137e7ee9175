"""Process of the gate that touches the node: `python -m accelbench.gate.measuring FOLDER`.

It reads `request.json` in the folder and writes the other files of `accelbench.gate.request` and the runs in `runs/`
there. When its standard input is closed, because the gate has ended or was killed, it ends its processes and deletes
the folder (`accelbench.gate.cleanup`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from time import monotonic

import psutil

from accelbench.doctor.quiet import observe_load
from accelbench.errors import UserError, collect_damage
from accelbench.execution.plan import discover
from accelbench.execution.progress import Progress
from accelbench.execution.runner import run_plan
from accelbench.execution.schedule import ScheduledRun
from accelbench.execution.store import RunStore
from accelbench.gate.answer import RESOURCES, GateResource
from accelbench.gate.gpu_health import gpu_processes
from accelbench.gate.health import read_health
from accelbench.gate.past_limits import past_metrics
from accelbench.gate.reading import HealthReading
from accelbench.gate.request import GateRequest, MeasurementProblem, PlannedResources, Readings
from accelbench.output.console import PlainConsole
from accelbench.profiling.child import child_environment, module_command
from accelbench.profiling.devices import DeviceMissing, device_kind
from accelbench.profiling.files import read_regular, replace_file
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.stored import Stored
from accelbench.session import new_run, plan_run

POINT_SHARE, LAST_START_SHARE = 0.4, 0.5
"""Time limit of a point, and latest start of a point, as shares of the gate's time limit."""


def main() -> None:
    """Measure the node as requested."""
    folder = Path(sys.argv[1])
    Thread(target=_end_with_gate, args=(folder,), daemon=True).start()
    request = GateRequest.model_validate_json(read_regular(folder / "request.json"))
    deadline = monotonic() + LAST_START_SHARE * request.limit_s
    if busy := busy_with(request.only):
        write(folder / "busy.json", MeasurementProblem(reason=busy))
        if not request.include_noisy:
            return
    resources = request.only or RESOURCES
    write(folder / "before.json", _health(resources, folder))
    problems = []
    for device in ("cpu", "gpu"):
        if problem := _measure(device, request, folder, deadline):
            problems.append(problem)
    write(folder / "problems.json", Readings(problems=problems))
    write(folder / "after.json", _health(resources, folder))
    if request.history:
        stores = [RunStore(path.parent) for path in sorted((folder / "runs").glob("*/run.json"))]
        write(folder / "history.json", past_metrics(Path(request.history), stores))


def busy_with(only: Sequence[GateResource]) -> str | None:
    """Return the processes that would disturb the measurement as text; None if the node is idle."""
    load = observe_load()
    if load.is_busy and {"cpu", "memory", "gpu"} & {*(only or RESOURCES)}:
        return f"{load.found}: {', '.join(load.busiest) or 'steal time, or short-lived processes'}"
    if "gpu" in (only or RESOURCES) and (found := gpu_processes()):
        return "; ".join(f"{_name(pid)} (PID {pid}) uses GPU {index}" for pid, index in sorted(found.items()))
    return None


def _name(pid: int) -> str:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return "another process"


def _health(resources: Sequence[GateResource], folder: Path) -> Readings:
    found: list[HealthReading] = read_health(resources, folder)
    return Readings(readings=found)


def resource_of(point: Point) -> GateResource:
    """Return the resource that a point measures, by the declaration of its benchmark."""
    if point.device != "cpu":
        return "gpu"
    return "memory" if discover()[point.benchmark].declared(point)["bound"].resource == "memory" else "cpu"


def _measure(device: str, request: GateRequest, folder: Path, deadline: float) -> MeasurementProblem | None:
    """Measure the requested points of a device; return the reason if there are some and none can be measured."""
    wanted = {"cpu": {"cpu", "memory"}, "gpu": {"gpu"}}[device]
    if not wanted & {*(request.only or RESOURCES)}:
        return None
    resource: GateResource = "gpu" if device == "gpu" else "cpu"
    try:
        device_kind(device).require()
        plan = plan_run(
            (),
            suite=request.suite,
            device=device,
            choices=(),
            backend=None,
            ceilings=False,
            time_limit=POINT_SHARE * request.limit_s,
        )
    except DeviceMissing as error:
        # A node without a GPU is complete unless its GPU is requested.
        needed = resource in request.only or resource == "cpu"
        return MeasurementProblem(resource=resource, reason=str(error)) if needed else None
    except UserError as error:
        return MeasurementProblem(resource=resource, reason=str(error)) if resource in request.only else None
    only = request.only or RESOURCES
    plan.points[:] = [point for point in plan.points if resource_of(point) in only]
    if not plan.points:
        return None
    resources = {str(point): resource_of(point) for point in plan.points}
    write(folder / f"{device}.json", PlannedResources(resources=resources))
    store = new_run(folder / "runs" / device, plan, command=["accelbench", "gate"])
    with suppress(KeyboardInterrupt):  # the rest of the points is unknown
        run_plan(store, _LimitedProgress(folder, deadline))
    store.close()
    return None


class _LimitedProgress(Progress):
    """Progress that is written to a file, and ends the run after the latest start of a point."""

    def __init__(self, folder: Path, deadline: float) -> None:
        super().__init__(PlainConsole(quiet=True))
        self._folder, self._deadline = folder, deadline

    def started(self, scheduled: ScheduledRun) -> None:
        """Write the name of the point; raise KeyboardInterrupt if it is too late to start it."""
        if monotonic() > self._deadline:
            raise KeyboardInterrupt
        write(self._folder / "current.json", MeasurementProblem(reason=str(scheduled.point)))
        super().started(scheduled)


def write(path: Path, content: Stored) -> None:
    """Write a file that the gate reads, in one step."""
    replace_file(path, lambda new: new.write_text(content.model_dump_json(), encoding="utf-8"))


def _end_with_gate(folder: Path) -> None:
    """Wait until standard input is closed, then become the process that deletes the folder."""
    os.read(sys.stdin.fileno(), 1)
    words = module_command("accelbench.gate.cleanup", str(folder))
    os.execve(words[0], words, child_environment())


if __name__ == "__main__":
    with collect_damage():
        main()
