"""The outcome of a day: a line for each stage, and the most wanted figures with what they are a share of."""

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
"""The kernels in the order of the table; trainings follow."""
ISSUE = "share of instruction issue at the highest clock"
"""The metric of searches, which no peak bounds."""
STYLES: dict[StageState, str] = {
    "done": "green",
    "failed": "bold red",
    "out of time": "yellow",
    "interrupted": "yellow",
    "skipped": "dim",
    "not reached": "dim",
}


@dataclass(frozen=True)
class KeyResult:
    """Row of the table of results."""

    point: str
    value: str
    of_peak: str
    beside: str
    """The figure is this share of the vendor's rate for the same product or copy, or of what can be issued."""


def print_day(
    stages: Sequence[DayStage], entries: Mapping[str, StageEntry], runs: Mapping[str, RunStore], console: Console
) -> None:
    """Print the stages and the figures."""
    table = new_table("stage", "state", "time", "", right=("time",))
    for stage in stages:
        entry = entries.get(stage.name, StageEntry("not reached"))
        state = Text(entry.state, style=STYLES[entry.state])
        table.add_row(stage.name, state, f"{entry.seconds:.0f} s", Text(entry.note))
    console.print(table)
    found = [figure for name, run in runs.items() if not name.startswith("rest") for figure in figures(run)]
    if found:
        print_figures(found, console)


def print_figures(found: Sequence[KeyResult], console: Console) -> None:
    table = new_table("point", "figure", "of peak", "beside", right=("figure", "of peak"))
    for figure in found:
        table.add_row(Text(figure.point), Text(figure.value), figure.of_peak, figure.beside)
    console.print(table)


def figures(run: RunStore) -> Iterator[KeyResult]:
    """Return the most wanted figures of a run: kernels in the order of `WANTED`, and every training."""
    try:
        rows = make_rows(run.records())
    except UserError:
        return  # its stage says so
    vendor = {_same_work(row): rate for row in rows if _vendor(row) and (rate := row.record.rate())}
    wanted = [row for name in WANTED for row in rows if row.record.point.benchmark == name]
    for row in [*wanted, *(row for row in rows if row.training)]:
        yield KeyResult(
            point=f"{row.record.point.benchmark} {row.point}",
            value=row.reading.figure,
            of_peak=share(row.of_peak),
            beside=_beside(row, vendor.get(_same_work(row))),
        )


def _vendor(row: Row) -> bool:
    return row.record.point.params.get("impl") == "vendor"


def _same_work(row: Row) -> tuple[object, ...]:
    """Return what a point has in common with the vendor's implementation of it."""
    params = {axis: value for axis, value in row.record.point.params.items() if axis != "impl"}
    return row.record.point.benchmark, *sorted(params.items())


def _beside(row: Row, vendors: float | None) -> str:
    rate, issue = row.record.rate(), row.record.metrics.get(ISSUE)
    if vendors and rate and not _vendor(row):
        return f"{percent(rate / vendors)} of the vendor's"
    if issue is not None:
        return f"{percent(issue.value)} of issue"
    return UNKNOWN
