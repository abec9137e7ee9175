"""Server process of one side of a pair, in that side's interpreter: plans the points and measures them on request.

Started as `python -m accelbench.pair.server`, possibly in a container. Protocol: lines of JSON on standard input and
output. `{"request": SideRequest}` is answered by `{"plan": SidePlan}`, and each `{"measure": INDEX}`, the index of a
point in the plan, by `{"record": Record}`. Each measurement is a scheduled run of the runner, in a new worker process.
All other output goes to standard error.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from accelbench.diagnosis import name_of, point_of
from accelbench.errors import UserError
from accelbench.execution.plan import Choice, make_plan
from accelbench.execution.runner import measure_scheduled
from accelbench.execution.schedule import ScheduledRun
from accelbench.execution.store import RunInfo, Settings
from accelbench.execution.template_process import Template
from accelbench.pair.script import measure_script
from accelbench.profiling.child import die_with_parent
from accelbench.profiling.devices import DeviceMissing, find_device
from accelbench.profiling.machine.environment.collect import collect
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.records.point import Device, Point
from accelbench.profiling.records.stored import Stored

PLAIN_ROUND = 2
"""Repetition number passed to the runner: only repetition 1 profiles and trains to the end."""


class SideRequest(Stored):
    """Request to a side: the points to measure. First line of its standard input."""

    benchmarks: list[str]
    """Names of the benchmarks."""
    device: str
    """Value of `--device`."""
    backend: str | None
    """Keras backend; null for the first installed one."""
    choices: list[Choice]
    """Values of axes; a later choice for an axis overrides an earlier one."""
    script: list[str] = []
    """Words of the command of a user's script, which is measured instead of benchmarks."""
    settings: Settings
    """Settings of each measurement."""


class SidePlan(Stored):
    """Answer of a side: its points, or the reason why it has none."""

    error: str | None = None
    """Reason why nothing can be measured, in one line."""
    device: Device = ""
    """Kind of device."""
    points: list[Point] = []
    """Points, which `measure` requests refer to by index."""
    environment: Environment | None = None
    """Environment record of this side."""


def main() -> None:
    """Answer each request until end of input."""
    die_with_parent()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that workers are ended, too
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # prints of benchmarks stay out of the protocol
    lines = iter(sys.stdin.readline, "")
    request = SideRequest.model_validate(json.loads(next(lines))["request"])
    plan = plan_of(request)
    print(json.dumps({"plan": plan.model_dump(mode="json")}), file=answers, flush=True)
    with Template() as template, TemporaryDirectory(prefix="accelbench-pair-") as folder:
        for line in lines:
            point = plan.points[json.loads(line)["measure"]]
            record = measure(plan, point, request, template, Path(folder))
            print(f'{{"record": {record}}}', file=answers, flush=True)


def plan_of(request: SideRequest) -> SidePlan:
    """Return the requested points, or the reason why nothing can be measured."""
    try:
        device = find_device(request.device)
        points = (
            [point_of(name_of(request.script), device)]
            if request.script
            else make_plan(request.benchmarks, None, device, request.choices, request.backend)
        )
    except (UserError, DeviceMissing) as error:
        return SidePlan(error=str(error))
    seed = request.settings.seed
    return SidePlan(device=device, points=[replace(point, seed=seed) for point in points], environment=collect())


def measure(plan: SidePlan, point: Point, request: SideRequest, template: Template, folder: Path) -> str:
    """Measure the point once, in a new process, and return its record as JSON."""
    if request.script:
        return measure_script(request.script, point, request.settings.max_seconds).model_dump_json()
    assert plan.environment is not None
    info = RunInfo(
        run_id="pair",
        created=datetime.now(UTC),
        status="running",
        command=sys.argv,
        suite=None,
        device=plan.device,
        settings=request.settings,
        plan=plan.points,
        environment=plan.environment,
    )
    _, text = measure_scheduled(folder, info, ScheduledRun(point, PLAIN_ROUND), None, template, folder)
    return text


if __name__ == "__main__":
    try:
        main()
    except (KeyboardInterrupt, StopIteration):
        sys.exit(1)  # the parent has ended
