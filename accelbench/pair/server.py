"""The program that runs in a side's own interpreter: it plans what it is asked for, and measures point by point.

It is started as `python -m accelbench.pair.server`, also within a container, and talks in lines of JSON: an `Order` on
standard input is answered by a `Plan` on standard output, and then each number of a point of that plan by a record.
Each measurement is a turn of the runner, so its worker is a fresh process. What anything prints goes to
standard error.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from accelbench.errors import UserError
from accelbench.profiling.devices import DeviceMissing, find_device
from accelbench.profiling.machine.environment.collect import collect
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.records.point import Device, Point
from accelbench.profiling.records.stored import Stored
from accelbench.run.child import die_with_parent
from accelbench.run.plan import Choice, make_plan
from accelbench.run.runner import measure_turn
from accelbench.run.schedule import Turn
from accelbench.run.store import RunInfo, Settings
from accelbench.run.template_process import Template

PLAIN_ROUND = 2
"""The number of the round that each measurement is to the runner: the first goes on to the end, and is profiled."""


class Order(Stored):
    """The first line that a side reads: what it is to measure."""

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


class Plan(Stored):
    """The first line that a side answers: what it can measure, or why it cannot."""

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
    order = Order.model_validate_json(next(lines))
    plan = plan_of(order)
    print(plan.model_dump_json(), file=answers, flush=True)
    with Template() as template, TemporaryDirectory(prefix="accelbench-pair-") as folder:
        for line in lines:
            print(
                measure(plan, plan.points[int(line)], order.settings, template, Path(folder)), file=answers, flush=True
            )


def plan_of(order: Order) -> Plan:
    """Return the points that are ordered, or the reason why there are none."""
    try:
        device = find_device(order.device)
        points = make_plan(order.benchmarks, None, device, order.choices, order.backend)
    except (UserError, DeviceMissing) as error:
        return Plan(error=str(error))
    seed = order.settings.seed
    return Plan(device=device, points=[replace(point, seed=seed) for point in points], environment=collect())


def measure(plan: Plan, point: Point, settings: Settings, template: Template, folder: Path) -> str:
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
