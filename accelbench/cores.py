"""`accelbench cores`: a training on 1, 2, 4 … host cores and with as many input workers, and what it needs of both.

It is a run like any other: each point carries its number of cores as `Point.host_cores`, and the runner keeps the
point's worker to so many.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from accelbench.errors import UserError
from accelbench.run.plan import Choice, discover, make_plan
from profiling.machine.environment.cpu import count_usable
from profiling.machine.environment.limits import collect_cpu_quota
from profiling.records.point import Device, Point
from profiling.records.record import Record

if TYPE_CHECKING:
    from rich.console import Console

    from accelbench.run.store import RunInfo

WORKERS = "workers"


def usable_cores() -> int:
    """The cores that this process may use."""
    return _granted(count_usable(), collect_cpu_quota())


def _granted(cores: int, quota: float | None) -> int:
    """Those of so many cores that a CPU quota has time for."""
    return cores if quota is None else min(cores, max(1, int(quota)))


@contextmanager
def kept_to(cores: int | None) -> Iterator[None]:
    """Whatever is started here runs on so many cores only, those of the lowest numbers; None: on all."""
    if cores is None:
        yield
        return
    with on_cores(sorted(os.sched_getaffinity(0))[:cores]):
        yield


@contextmanager
def on_cores(cores: Sequence[int]) -> Iterator[None]:
    """Whatever is started here runs on these cores only.

    Frameworks size their thread pools when they are imported, and threads keep the mask they were born with: a process
    has to begin with it. It is that of the calling thread while the block lasts.
    """
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, everywhere)


def require_cores(plan: Iterable[Point]) -> None:
    """UserError unless the workers of these points can have their cores here."""
    most = max((point.host_cores or 0 for point in plan), default=0)
    if most and not hasattr(os, "sched_setaffinity"):
        raise UserError("this system cannot keep a process to some of its cores: 'accelbench cores' needs Linux")
    if most > usable_cores():
        raise UserError(f"{most} host cores are wanted, and this process may use {usable_cores()}")


def parse_counts(option: str, text: str) -> list[int]:
    """The numbers in `1,2,4`, in order and without repetition; UserError for anything else."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise UserError(f"{option} {text!r} is not of the form 1,2,4")
    counts = sorted(set(map(int, parts)))
    if counts[0] < 1:
        raise UserError(f"{option} {text}: the least is 1")
    return counts


def doubling(most: int) -> list[int]:
    """1, 2, 4 … and the number itself."""
    return sorted({1 << power for power in range(most.bit_length())} | {most})


def plan_cores(
    name: str,
    device: Device,
    choices: Sequence[Choice],
    backend: str | None,
    cores: str | None = None,
    workers: str | None = None,
) -> list[Point]:
    """One training with each number of host cores, then on all of them with each number of input workers.

    UserError for what is no training, is more than one point, or needs more cores than there are.
    """
    (base, *others) = make_plan((name,), None, device, choices, backend, with_ceilings=False)
    if not discover()[name].backends:
        raise UserError(f"{name} is no training: 'accelbench cores' needs a workload whose steps the host feeds")
    if others:
        several = next(axis for axis, value in base.params.items() if any(value != o.params[axis] for o in others))
        rest = ", and the others with --workers" if several == WORKERS else ""
        raise UserError(f"{name} is trained at one point: give one value of {several}{rest}")
    there = usable_cores()
    counts = doubling(there) if cores is None else parse_counts("--cores", cores)
    points = [_with_cores(base, count) for count in counts]
    require_cores(points)
    if WORKERS in base.params:
        numbers = doubling(there) if workers is None else parse_counts("--workers", workers)
        feeding = [*choices, Choice(name, WORKERS, tuple(map(str, numbers)))]
        fed = make_plan((name,), None, device, feeding, backend, with_ceilings=False)
        points += [_with_cores(point, there) for point in fed]
    elif workers is not None:
        raise UserError(f"{name} has no axis {WORKERS!r}: its examples need no input workers")
    return list({str(point): point for point in points}.values())


def _with_cores(point: Point, count: int) -> Point:
    return replace(point, host_cores=count)


def render_cores(info: RunInfo, records: Sequence[Record], console: Console) -> None:
    """Print the rate by cores and by input workers, and what the training needs of them; nothing of another run."""
    if not info.plan or info.plan[0].host_cores is None:
        return
    from profiling.analysis.cores import needed_cores

    measured = [record for record in records if record.status == "measured" and record.timing and record.work]
    # The points begin with the series of cores, whose input workers are those of the first.
    workers = info.plan[0].params.get(WORKERS)
    there = _granted(info.environment.cpu.usable, info.environment.limits.cpu_quota)
    by_cores = {r.point.host_cores or there: r for r in measured if r.point.params.get(WORKERS) == workers}
    console.print()
    if by_cores:
        _print_rates("host cores", by_cores, console)
        needed = needed_cores({count: _rates(record) for count, record in by_cores.items()}, there)
        console.print(needed.sentence(), style="bold", soft_wrap=True)
    else:
        console.print("cannot tell how many cores it needs: no point was measured", style="bold", soft_wrap=True)
    by_workers = {int(r.point.params.get(WORKERS, 1)): r for r in measured if r.point.host_cores == there}
    if len(by_workers) > 1:
        console.print()
        _print_rates("input workers", by_workers, console)
        console.print(_enough_workers(by_workers), style="bold", soft_wrap=True)


def _rates(record: Record) -> list[float]:
    """Items per second, of each step."""
    return [record.items_timed / seconds for seconds in record.timing.samples] if record.timing else []


def _print_rates(what: str, records: Mapping[int, Record], console: Console) -> None:
    from rich import box
    from rich.table import Table

    item = next(record.work.item for record in records.values() if record.work)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for column in (what, f"{item}/s", "of the fastest"):
        table.add_column(column, justify="right")
    table.add_column("held back by")
    medians = {count: median(_rates(record)) for count, record in records.items()}
    for count, rate in sorted(medians.items()):
        profile = records[count].profile
        bound = (profile and profile.bottleneck.bound) or "unknown"
        table.add_row(str(count), f"{rate:,.4g}", f"{rate / max(medians.values()):.0%}", bound)
    console.print(table)


def _enough_workers(records: Mapping[int, Record]) -> str:
    from profiling.analysis.cores import NEAR

    medians = {count: median(_rates(record)) for count, record in records.items()}
    enough = min(count for count, rate in medians.items() if rate >= NEAR * max(medians.values()))
    return (
        f"fed by {enough} input worker{'s' * (enough != 1)} on all cores: "
        f"no number that was measured is over {1 / NEAR - 1:.0%} faster"
    )
