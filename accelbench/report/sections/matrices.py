"""Section of the results that form a matrix, such as the copies between all pairs of GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from rich.console import Console
from rich.text import Text

from accelbench.export.terminal import numbers_table
from accelbench.output.format import digits, scale_of
from accelbench.profiling.analysis.course import disturbances
from accelbench.profiling.records.matrix import MatrixAxes
from accelbench.profiling.records.point import Scalar
from accelbench.profiling.records.record import Record
from accelbench.report.section import InPage, Section

FEWEST = 2
"""Minimum number of results in a matrix."""


@dataclass(frozen=True)
class MatrixCell:
    """Result of a pair of values, as text."""

    text: str = ""
    """Number in the unit of the matrix, or `failed` or `skipped`; empty without a record."""
    marks: str = ""
    """Marks of the result, separated by commas."""


@dataclass(frozen=True)
class ResultMatrix:
    """Results of one benchmark by the values of two axes."""

    title: str
    unit: str
    rows: str
    """Axis of the rows."""
    columns: str
    """Axis of the columns."""
    row_values: tuple[Scalar, ...]
    column_values: tuple[Scalar, ...]
    cells: tuple[tuple[MatrixCell, ...], ...]
    """Cells by row and column."""


def matrices(records: Sequence[Record]) -> list[ResultMatrix]:
    """Return the matrices with at least two results, one for each combination of the other axes' values."""
    found: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        if record.matrix and {record.matrix.rows, record.matrix.columns} <= record.point.params.keys():
            found.setdefault((_title(record, record.matrix), record.unit), []).append(record)
    return [_matrix(alike) for alike in found.values() if sum(bool(record.rate()) for record in alike) >= FEWEST]


def _title(record: Record, axes: MatrixAxes) -> str:
    point = record.point
    others = [f"{axis}={value}" for axis, value in point.params.items() if axis not in (axes.rows, axes.columns)]
    return " ".join([point.benchmark, point.device, *others])


def _matrix(alike: Sequence[Record]) -> ResultMatrix:
    axes = alike[0].matrix
    assert axes is not None
    by_pair = {(record.point.params[axes.rows], record.point.params[axes.columns]): record for record in alike}
    scale, unit = scale_of(median(rate for record in alike if (rate := record.rate())), alike[0].unit)
    row_values, column_values = (tuple(sorted({pair[place] for pair in by_pair}, key=_order)) for place in (0, 1))
    return ResultMatrix(
        _title(alike[0], axes),
        unit,
        axes.rows,
        axes.columns,
        row_values,
        column_values,
        tuple(tuple(_cell(by_pair.get((row, column)), scale) for column in column_values) for row in row_values),
    )


def _order(value: Scalar) -> tuple[bool, float, str]:
    """Return the sorting key of an axis value: numbers first."""
    return (False, value, "") if isinstance(value, int | float) else (True, 0.0, value)


def _cell(record: Record | None, scale: float) -> MatrixCell:
    if record is None:
        return MatrixCell()
    rate = record.rate()
    if not rate:
        return MatrixCell(record.status)
    named = record.matrix.marks if record.matrix else ()
    marks = [name for name in named if name in record.metrics and record.metrics[name].value]
    return MatrixCell(
        f"{record.bound_sign()}{digits(rate / scale)}", ", ".join([*marks, *["noisy"] * bool(disturbances(record))])
    )


def _print(found: Sequence[ResultMatrix], console: Console) -> None:
    for matrix in found:
        console.print()
        console.print(Text(f"{matrix.title}: {matrix.unit}", style="bold"))
        shown = numbers_table("", *(f"{matrix.columns} {value}" for value in matrix.column_values))
        for value, cells in zip(matrix.row_values, matrix.cells, strict=True):
            shown.add_row(
                Text(f"{matrix.rows} {value}"), *(Text(cell.text) + Text(f"\n{cell.marks}", "dim") for cell in cells)
            )
        console.print(shown)


section = Section(
    find=lambda run: matrices(run.records),
    page=InPage("matrices.html", "matrices", "Matrices"),
    terminal=_print,
)
