"""Outcome of a GPU day: a table of the stages, and a table of key results with their shares of peaks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from accelbench.errors import UserError
from accelbench.execution.store import RunStore
from accelbench.export.terminal import new_table
from accelbench.gpu_day.stages import DayStage
from accelbench.gpu_day.state_file import StageEntry, StageState
from accelbench.output.format import UNKNOWN, percent, share
from accelbench.report.rows import Row, make_rows

WANTED = ("matmul", "stream", "nqueens", "uts", "flowshop", "reduce", "launch")
"""Kernels of the results table, in its order; training workloads follow."""
LIMITS = {
    "share of instruction issue at the highest clock": "issue rate",
    "share of shared-memory wavefronts at the highest clock": "shared-memory rate",
}
"""Metrics of tree searches, which have no peak, with what they are shares of."""
STYLES: dict[StageState, str] = {
    "done": "green",
    "failed": "bold red",
    "out of time": "yellow",
    "interrupted": "yellow",
    "all skipped": "dim",
    "skipped": "dim",
    "not reached": "dim",
}


@dataclass(frozen=True)
class KeyResult:
    """Row of the table of results."""

    point: str
    value: str
    of_peak: str
    reference: str
    """Share of the vendor library's rate for the same work, or of a limit in `LIMITS`."""


def print_day(
    stages: Sequence[DayStage], entries: Mapping[str, StageEntry], runs: Mapping[str, RunStore], console: Console
) -> None:
    """Print the tables of stages and results."""
    table = new_table("stage", "state", "time", "", right=("time",))
    for stage in stages:
        entry = entries.get(stage.name, StageEntry("not reached"))
        state = Text(entry.state, style=STYLES[entry.state])
        table.add_row(stage.name, state, f"{entry.seconds:.0f} s", Text(entry.note))
    console.print(table)
    found = [result for name, run in runs.items() if not name.startswith("rest") for result in key_results(run)]
    if found:
        print_results(found, console)


def print_results(found: Sequence[KeyResult], console: Console) -> None:
    table = new_table("point", "result", "of peak", "compared with", right=("result", "of peak"))
    for result in found:
        table.add_row(Text(result.point), Text(result.value), result.of_peak, result.reference)
    console.print(table)


def key_results(run: RunStore) -> Iterator[KeyResult]:
    """Yield the key results of a run: kernels in the order of `WANTED`, then all training workloads."""
    try:
        rows = make_rows(run.records())
    except UserError:
        return  # reported in the note of the stage
    vendor = {_same_work(row): rate for row in rows if _vendor(row) and (rate := row.record.rate())}
    wanted = [row for name in WANTED for row in rows if row.record.point.benchmark == name]
    for row in [*wanted, *(row for row in rows if row.training)]:
        yield KeyResult(
            point=f"{row.record.point.benchmark} {row.point}",
            value=row.reading.quantity,
            of_peak=share(row.of_peak),
            reference=_reference(row, vendor.get(_same_work(row))),
        )


def _vendor(row: Row) -> bool:
    return row.record.point.params.get("impl") == "vendor"


def _same_work(row: Row) -> tuple[object, ...]:
    """Return the benchmark and all parameters except the implementation."""
    params = {axis: value for axis, value in row.record.point.params.items() if axis != "impl"}
    return row.record.point.benchmark, *sorted(params.items())


def _reference(row: Row, vendor_rate: float | None) -> str:
    rate = row.record.rate()
    if vendor_rate and rate and not _vendor(row):
        return f"{percent(rate / vendor_rate)} of the vendor library"
    for name, limit in LIMITS.items():
        if metric := row.record.metrics.get(name):
            return f"{percent(metric.value)} of {limit}"
    return UNKNOWN
