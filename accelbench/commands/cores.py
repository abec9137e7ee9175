"""The command `cores`: a training on 1, 2, 4 … host cores and with as many input workers.

It is a run like any other: each point carries its number of cores as `Point.host_cores`, and the runner keeps the
point's worker to so many. The table in `accelbench.report.sections.needed_cores` tells what the training needs of both.
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
@click.option("--param", "params", multiple=True, metavar="AXIS=V", help="The value of an axis of the workload.")
@BACKEND_OPTION
@click.option("--cores", metavar="1,2,4", help="Numbers of host cores. Default: 1, 2, 4 … to all.")
@click.option("--workers", metavar="1,2,4", help="Numbers of input workers, on all cores. Default: as of cores.")
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
    """Tell how many host cores a training needs: train with 1, 2, 4 … of them, and with as many input workers."""
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
    """Return one training with each number of host cores, then on all of them with each number of input workers.

    UserError for what is no training, is more than one point, needs more cores than there are, or takes too few numbers
    of them for a law.
    """
    from accelbench.execution.affinity import require_cores, usable_cores
    from accelbench.execution.plan import Choice, discover, make_plan
    from accelbench.profiling.analysis.cores_law import MIN_COUNTS

    (base, *others) = make_plan((name,), None, device, choices, backend)
    benchmark = discover()[name]
    if not benchmark.backends:
        raise UserError(f"{name} is no training: 'accelbench cores' needs a workload whose steps the host feeds")
    workers_axis = benchmark.layout.get("input_workers")
    if others:
        several = next(axis for axis, value in base.params.items() if any(value != o.params[axis] for o in others))
        rest = ", and the others with --workers" if several == workers_axis else ""
        raise UserError(f"{name} is trained at one point: give one value of {several}{rest}")
    there = usable_cores()
    counts = doubling(there) if cores is None else parse_counts("--cores", cores)
    points = [replace(base, host_cores=count) for count in counts]
    require_cores(points)
    if workers_axis:
        numbers = doubling(there) if workers is None else parse_counts("--workers", workers)
        feeding = [*choices, Choice(name, workers_axis, tuple(map(str, numbers)))]
        fed = make_plan((name,), None, device, feeding, backend)
        points += [replace(point, host_cores=there) for point in fed]
    elif workers is not None:
        raise UserError(f"{name} declares no input workers: its examples need none")
    if len(counts) < MIN_COUNTS:
        raise UserError(_too_few(len(counts), there, name, workers_axis))
    return list({str(point): point for point in points}.values())


def _too_few(given: int, there: int, name: str, workers_axis: str | None) -> str:
    """Return why so few numbers of cores would tell nothing, of those that are there, and what to give instead."""
    from accelbench.profiling.analysis.cores_law import MIN_COUNTS

    needed = f"how many cores {name} needs is told by {MIN_COUNTS} different numbers of them"
    if there >= MIN_COUNTS:
        return f"{needed}, and {given} would be measured: give --cores {','.join(map(str, doubling(there)))}"
    instead = f", or compare input workers: accelbench run {name} --param {workers_axis}=1,2" if workers_axis else ""
    return f"{needed}, and this process may use {there} in all: take a machine with more{instead}"


def parse_counts(option: str, text: str) -> list[int]:
    """Return the numbers in `1,2,4`, in order and without repetition; UserError for anything else."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise UserError(f"{option} {text!r} is not of the form 1,2,4")
    counts = sorted(set(map(int, parts)))
    if counts[0] < 1:
        raise UserError(f"{option} {text}: the least is 1")
    return counts


def doubling(most: int) -> list[int]:
    """Return 1, 2, 4 … and the number itself."""
    return sorted({1 << power for power in range(most.bit_length())} | {most})
