"""Command `cores`: a training workload on 1, 2, 4 … host cores, and with 1, 2, 4 … input workers.

The runner limits the worker of each point to `Point.host_cores` cores. The table of the results is in
`accelbench.report.sections.needed_cores`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from accelbench.commands import BACKEND_OPTION, DEVICE_OPTION, OUT_OPTION, console, find_device
from accelbench.errors import UserError

if TYPE_CHECKING:
    from accelbench.execution.plan import Choice
    from accelbench.profiling.records.point import Device, Point


@click.command()
@click.argument("workload")
@DEVICE_OPTION
@click.option("--param", "params", multiple=True, metavar="AXIS=V", help="Value of an axis of the workload.")
@BACKEND_OPTION
@click.option("--cores", metavar="1,2,4", help="Numbers of host cores. Default: 1, 2, 4 … up to all.")
@click.option(
    "--workers",
    metavar="1,2,4",
    help="Numbers of input workers, on all cores. Default: 1, 2, 4 … up to the number of cores.",
)
@OUT_OPTION
def command(
    workload: str,
    device: str,
    params: tuple[str, ...],
    backend: str | None,
    cores: str | None,
    workers: str | None,
    out: Path | None,
) -> int:
    """Measure how many host cores a training workload needs: vary cores and input workers (1, 2, 4 …)."""
    from accelbench.execution.plan import Choice, replaced_backend
    from accelbench.execution.store import Settings
    from accelbench.session import RunPlan, complete, new_run

    found = find_device(device)
    plan = plan_cores(workload, found, [Choice.parse(param) for param in params], backend, cores, workers)
    if replaced := replaced_backend(plan, backend):
        console().print(replaced)
    planned = RunPlan(f"cores-{workload}", None, found, Settings(ceilings=False), plan)
    return complete(new_run(out, planned), console())


def plan_cores(
    name: str,
    device: Device,
    choices: Sequence[Choice],
    backend: str | None,
    cores: str | None = None,
    workers: str | None = None,
) -> list[Point]:
    """Return the workload's point for each number of host cores, then on all cores for each number of input workers.

    Raises UserError for a kernel, for more than one point, for more cores than available, and for fewer distinct
    numbers of cores than the fit needs.
    """
    from accelbench.execution.affinity import require_cores, usable_cores
    from accelbench.execution.plan import Choice, discover, make_plan
    from accelbench.profiling.analysis.cores_law import MIN_COUNTS

    (base, *others) = make_plan((name,), None, device, choices, backend)
    benchmark = discover()[name]
    if not benchmark.backends:
        raise UserError(f"{name} is not a training workload: choose one of 'accelbench list'")
    workers_axis = benchmark.layout.get("input_workers")
    if others:
        several = next(axis for axis, value in base.params.items() if any(value != o.params[axis] for o in others))
        rest = ", and other values with --workers" if several == workers_axis else ""
        raise UserError(f"{name} must be a single point: give one value of {several}{rest}")
    available = usable_cores()
    counts = doubling(available) if cores is None else parse_counts("--cores", cores)
    points = [replace(base, host_cores=count) for count in counts]
    require_cores(points)
    if workers_axis:
        numbers = doubling(available) if workers is None else parse_counts("--workers", workers)
        feeding = [*choices, Choice(name, workers_axis, tuple(map(str, numbers)))]
        fed = make_plan((name,), None, device, feeding, backend)
        points += [replace(point, host_cores=available) for point in fed]
    elif workers is not None:
        raise UserError(f"{name} has no input workers: omit --workers")
    if len(counts) < MIN_COUNTS:
        raise UserError(_too_few(len(counts), available, name, workers_axis))
    return list({str(point): point for point in points}.values())


def _too_few(given: int, available: int, name: str, workers_axis: str | None) -> str:
    """Return the message for fewer numbers of cores than the fit needs."""
    from accelbench.profiling.analysis.cores_law import MIN_COUNTS

    needed = f"the fit of {name} needs {MIN_COUNTS} different numbers of cores"
    if available >= MIN_COUNTS:
        return f"{needed}, not {given}: give --cores {','.join(map(str, doubling(available)))}"
    instead = f", or compare input workers: accelbench run {name} --param {workers_axis}=1,2" if workers_axis else ""
    return f"{needed}, and this process may use {available}: use a larger machine{instead}"


def parse_counts(option: str, text: str) -> list[int]:
    """Return the distinct numbers in `1,2,4`, sorted; raise UserError for any other text."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise UserError(f"{option} {text!r} must have the form 1,2,4")
    counts = sorted(set(map(int, parts)))
    if counts[0] < 1:
        raise UserError(f"{option} {text}: the minimum is 1")
    return counts


def doubling(most: int) -> list[int]:
    """Return the powers of two up to `most`, and `most`."""
    return sorted({1 << power for power in range(most.bit_length())} | {most})
