"""Matrices of results on the page and the terminal, from stored records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from accelbench.execution.plan import discover
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import Work
from accelbench.report.sections.matrices import MatrixCell, matrices
from tests.fixtures.report_pages import Tags, page_of, printed
from tests.fixtures.report_records import record, timing, unmeasured
from tests.fixtures.report_runs import make_run


def declared(point: Point) -> dict[str, Any]:
    return {"point": point, **discover()[point.benchmark].declared(point)}


def pair(source: int, target: int, gb_per_s: float, way: str, kib: int = 1024, noise: str = "") -> Record:
    point = Point("transfer-gpus", "gpu", {"from": source, "to": target, "kib": kib})
    return record(
        "transfer-gpus",
        **declared(point),
        timing=timing(1e-3, spread=0),
        work=Work(bytes=gb_per_s * 1e6),
        metrics={way: Metric(1), "other": Metric(2)},
        noise=[noise] if noise else [],
    )


def node() -> list[Record]:
    """Copies between three GPUs: one pair failed, one is noisy, one is missing."""
    failed = Point("transfer-gpus", "gpu", {"from": 2, "to": 1, "kib": 1024})
    return [
        pair(0, 1, 40, "peer access"),
        pair(0, 2, 0.9, "through the host"),
        pair(1, 0, 40.26, "peer access", noise="GPU 0 shared by 2 processes"),
        pair(2, 0, 12, "through the host"),
        unmeasured("transfer-gpus", "failed", "12 wrong", **declared(failed)),
    ]


def test_a_matrix_has_a_cell_for_each_ordered_pair_in_one_unit() -> None:
    (matrix,) = matrices(node())
    assert (matrix.unit, matrix.rows, matrix.columns) == ("GB/s", "from", "to")
    assert (matrix.row_values, matrix.column_values) == ((0, 1, 2), (0, 1, 2))
    assert matrix.cells == (
        (MatrixCell(), MatrixCell("40.0", "peer access"), MatrixCell("0.900", "through the host")),
        (MatrixCell("40.3", "peer access, noisy"), MatrixCell(), MatrixCell()),
        (MatrixCell("12.0", "through the host"), MatrixCell("failed"), MatrixCell()),
    )


def test_other_axes_divide_the_results_and_a_single_result_is_no_matrix() -> None:
    sizes = [pair(source, 0, 40, "peer access", kib) for kib in (4, 8) for source in (0, 1)]
    assert [len(matrix.cells) for matrix in matrices(sizes)] == [2, 2]
    assert matrices(sizes[:1]) == []
    assert matrices([record("stream", work=Work(bytes=1e6))] * 2) == []


def test_values_are_sorted_as_numbers() -> None:
    (matrix,) = matrices([pair(source, 0, 40, "peer access") for source in (10, 9, 0)])
    assert matrix.row_values == (0, 9, 10)


def test_page_and_terminal_show_the_matrix_of_the_stored_records(tmp_path: Path) -> None:
    tags = Tags(page_of(tmp_path, node()))
    assert "matrices" in [attributes.get("id") for _, attributes in tags.tags]
    cells = [attributes["data-label"] for tag, attributes in tags.tags if tag == "td" and "data-label" in attributes]
    assert cells.count("to 2") == 3
    for text in (tags.text, printed(make_run(tmp_path / "other", node()))):
        assert text.count("peer access, noisy") == 1
        assert text.count("through the host") >= 2
