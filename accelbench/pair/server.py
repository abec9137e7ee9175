"""Server process of one side of a pair, in that side's interpreter: it plans the points and measures them one by one.

Started as `python -m accelbench.pair.server`, also within a container. Protocol, in lines of JSON on standard
input and output: `{"request": SideRequest}` is answered by `{"plan": SidePlan}`, and each `{"measure": INDEX}` of a
point in the plan by `{"record": Record}`. Each measurement is a scheduled run of the runner, in a fresh worker process.
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

from accelbench.errors import UserError
from accelbench.execution.plan import Choice, make_plan
from accelbench.execution.runner import measure_turn
from accelbench.execution.schedule import Turn
from accelbench.execution.store import RunInfo, Settings
from accelbench.execution.template_process import Template
from accelbench.profiling.child import die_with_parent
from accelbench.profiling.devices import DeviceMissing, find_device
from accelbench.profiling.machine.environment.collect import collect
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.records.point import Device, Point
from accelbench.profiling.records.stored import Stored

PLAIN_ROUND = 2
"""The number of the round that each measurement is to the runner: the first goes on to the end, and is profiled."""


class SideRequest(Stored):
    """Request to a side: the points to measure. First line of its standard input."""

    benchmarks: list[str]
    """The names of the benchmarks."""
    device: str
    """The word of `--device`."""
    backend: str | None
    """The framework under Keras; null for the first that is installed."""
    choices: list[Choice]
    """The values of axes; a later one of the same axis counts."""
    settings: Settings
    """The user's choices for each run."""


class SidePlan(Stored):
    """Answer of a side: its points, or the reason why it has none."""

    error: str | None = None
    """The reason why nothing can be measured, in one line."""
    device: Device = ""
    """The kind of device that is measured."""
    points: list[Point] = []
    """The points, by whose numbers they are asked for."""
    environment: Environment | None = None
    """The machine as this side sees it."""


def main() -> None:
    """Answer each line until the input ends."""
    die_with_parent()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever asked wants no more: workers are ended, too
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever prints does not speak in between
    lines = iter(sys.stdin.readline, "")
    request = SideRequest.model_validate(json.loads(next(lines))["request"])
    plan = plan_of(request)
    print(json.dumps({"plan": plan.model_dump(mode="json")}), file=answers, flush=True)
    with Template() as template, TemporaryDirectory(prefix="accelbench-pair-") as folder:
        for line in lines:
            record = measure(plan, plan.points[json.loads(line)["measure"]], request.settings, template, Path(folder))
            print(f'{{"record": {record}}}', file=answers, flush=True)


def plan_of(order: SideRequest) -> SidePlan:
    """Return the points that are ordered, or the reason why there are none."""
    try:
        device = find_device(order.device)
        points = make_plan(order.benchmarks, None, device, order.choices, order.backend)
    except (UserError, DeviceMissing) as error:
        return SidePlan(error=str(error))
    seed = order.settings.seed
    return SidePlan(device=device, points=[replace(point, seed=seed) for point in points], environment=collect())


def measure(plan: SidePlan, point: Point, settings: Settings, template: Template, folder: Path) -> str:
    """Measure the point once, in a worker of its own, and return its record as JSON."""
    assert plan.environment is not None
    info = RunInfo(
        run_id="pair",
        created=datetime.now(UTC),
        status="running",
        command=sys.argv,
        suite=None,
        device=plan.device,
        settings=settings,
        plan=plan.points,
        environment=plan.environment,
    )
    _, text = measure_turn(folder, info, Turn(point, PLAIN_ROUND), None, template, folder)
    return text


if __name__ == "__main__":
    try:
        main()
    except (KeyboardInterrupt, StopIteration):
        sys.exit(1)  # whoever asked has ended
