"""Section of a run of `accelbench cores`: rates by host cores and by input workers, and the numbers needed.

The model is in `accelbench.profiling.analysis.cores_law`, which is imported only for such a run because it is slow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rich.console import Console

from accelbench.execution.affinity import granted
from accelbench.export.terminal import numbers_table
from accelbench.output.format import counted
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.report.section import Run, Section


def _find(run: Run) -> Run | None:
    """Return the run if it is a run of `accelbench cores`, else None."""
    return run if run.info.plan and run.info.plan[0].host_cores is not None else None


def _print(run: Run, console: Console) -> None:
    """Print the rates by cores and by input workers, and the numbers that the training workload needs."""
    from accelbench.profiling.analysis.cores_law import needed_cores

    info, records = run.info, run.records
    measured = [record for record in records if record.status == "measured" and record.timing and record.work]
    there = granted(info.environment.cpu.usable, info.environment.limits.cpu_quota)
    # The plan begins with the series of cores, which differ only in the number of cores.
    by_cores = {r.point.host_cores or there: r for r in measured if _on_any(r.point) == _on_any(info.plan[0])}
    console.print()
    if by_cores:
        _print_rates("host cores", by_cores, console)
        needed = needed_cores({count: _rates(record) for count, record in by_cores.items()}, there)
        console.print(needed.sentence(), style="bold", soft_wrap=True)
    else:
        console.print("number of cores needed: unknown, no point was measured", style="bold", soft_wrap=True)
    by_workers = {r.layout.input_workers or 1: r for r in measured if r.point.host_cores == there}
    if len(by_workers) > 1:
        console.print()
        _print_rates("input workers", by_workers, console)
        console.print(_enough_workers(by_workers), style="bold", soft_wrap=True)


def _on_any(point: Point) -> Point:
    """Return the point without its number of host cores."""
    return replace(point, host_cores=None)


def _rates(record: Record) -> list[float]:
    """Return the items per second of each block of steps; single steps vary too much if input arrives in bursts."""
    return [record.items_timed / seconds for seconds in record.timing.costs] if record.timing else []


def _rate(record: Record) -> float:
    """Return the items per second of all steady steps."""
    return record.items_timed / record.timing.execution.seconds if record.timing else 0.0


def _print_rates(what: str, records: Mapping[int, Record], console: Console) -> None:
    item = next(record.work.item for record in records.values() if record.work)
    table = numbers_table(what, f"{item}/s", "of the fastest")
    table.add_column("bottleneck")
    rates = {count: _rate(record) for count, record in records.items()}
    for count, rate in sorted(rates.items()):
        profile = records[count].profile
        bound = (profile and profile.bottleneck.bound) or "unknown"
        table.add_row(str(count), f"{rate:,.4g}", f"{rate / max(rates.values()):.0%}", bound)
    console.print(table)


def _enough_workers(records: Mapping[int, Record]) -> str:
    from accelbench.profiling.analysis.cores_law import NEAR

    rates = {count: _rate(record) for count, record in records.items()}
    enough = min(count for count, rate in rates.items() if rate >= NEAR * max(rates.values()))
    return (
        f"{counted(enough, 'input worker')} on all cores suffice: "
        f"no other measured number is more than {1 / NEAR - 1:.0%} faster"
    )


section = Section(find=_find, terminal=_print)
