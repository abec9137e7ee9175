"""Quality by class of classifiers: numbers by hand, the table of the page, and the line of the terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from accelbench.execution.store import RunStore
from accelbench.profiling.records.quality import ConfusionMatrix
from accelbench.report.class_quality import MOST_COLUMNS, by_class, lowest_recall
from accelbench.report.page import render_page
from accelbench.report.section import Run
from tests.fixtures.report_pages import printed
from tests.fixtures.report_records import training
from tests.fixtures.report_runs import make_run

MATRIX = ConfusionMatrix(classes=("lie", "<b>sit", "run"), counts=((8, 2, 0), (6, 4, 0), (0, 0, 0)))


def trained(tmp_path: Path, *matrices: ConfusionMatrix) -> RunStore:
    rows = [training("cpu", f"float{8 << n}", 0.01, confusion=matrix) for n, matrix in enumerate(matrices)]
    return make_run(tmp_path, rows, run_id="classes", device="cpu")


def test_qualities_by_hand() -> None:
    lie, sit, run = by_class(MATRIX)
    assert (lie.examples, lie.recall, lie.precision) == (10, 0.8, 8 / 14)
    assert lie.f1 == pytest.approx(2 * 8 / (2 * 8 + 2 + 6))
    assert (sit.recall, sit.precision) == (0.4, 4 / 6)
    assert [(cell.predicted, cell.count, cell.share) for cell in sit.counts] == [
        ("lie", 6, 0.6), ("<b>sit", 4, 0.4), ("run", 0, 0.0),
    ]  # fmt: skip
    assert (run.recall, run.precision, run.f1) == (None, None, None), "unknown, not zero"
    assert lowest_recall(MATRIX) == "lowest recall 0.400 (<b>sit)"
    assert lowest_recall(ConfusionMatrix(reason="too many")) == ""


def test_a_class_that_is_never_found_has_an_f1_of_zero() -> None:
    (never, _) = by_class(ConfusionMatrix(classes=("a", "b"), counts=((0, 3), (0, 3))))
    assert (never.precision, never.recall, never.f1) == (None, 0.0, 0.0)


@pytest.mark.parametrize("counts", [((1, 2),), ((1, 2), (3,)), ((1, 2, 3), (4, 5, 6)), ((1, -2), (3, 4))])
def test_a_matrix_that_is_not_square_or_has_negative_counts_is_invalid(counts: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(ValidationError):
        ConfusionMatrix(classes=("a", "b"), counts=counts)


def test_page_and_terminal_show_the_classes(tmp_path: Path) -> None:
    many = tuple(str(number) for number in range(MOST_COLUMNS + 1))
    large = ConfusionMatrix(classes=many, counts=tuple((1,) * len(many) for _ in many))
    store = trained(tmp_path, MATRIX, large, ConfusionMatrix(reason="500 classes"))
    page = render_page(Run.of(store))
    first, second, *_ = re.findall(r'<table class="confusion">.*?</table>', page, re.DOTALL)
    assert "<b>sit" not in page
    assert "as &lt;b&gt;sit" in first
    assert re.search(r'data-label="as lie" class="figure count" style="--share: 60.0%">6<', first)
    assert (second.count("<tr>"), second.count('class="figure count')) == (1 + len(many), 0)
    assert "500 classes" in page
    assert "lowest recall 0.400" in printed(store)
