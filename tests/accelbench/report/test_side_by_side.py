"""Runs side by side: compared results, grouped bars, ceilings in one table, and the summary."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from accelbench.compare.comparison_document import document_of_comparison
from accelbench.compare.runs import compare
from accelbench.execution.store import Label, RunStore
from accelbench.output.console import PlainConsole
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import Work
from accelbench.report.bars_plot import bars_plot
from accelbench.report.joined import Joined, read_runs
from accelbench.report.page import render_joined
from accelbench.report.same_points import same_points
from accelbench.report.terminal import print_runs
from tests.fixtures.report_node import cpu_records
from tests.fixtures.report_pages import Tags
from tests.fixtures.report_records import HOSTILE, record, timing, training
from tests.fixtures.report_runs import make_run

SVG = "{http://www.w3.org/2000/svg}"


def product(n: int, seconds: float, spread: float = 0.1, **changes: object) -> Record:
    """Return a matrix product with slow outliers: its median is far from its fastest samples."""
    work = Work(flops=2 * n**3, bytes=12 * n * n)
    params = {"impl": "vendor", "dtype": "float32", "n": n}
    timed = timing(seconds, spread=spread)
    return record("matmul", "cpu", params=params, figure="flops", work=work, timing=timed, **changes)


Stored = Callable[..., RunStore]


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    def store(name: str, *records: Record, label: str = "") -> RunStore:
        return make_run(tmp_path / name, [*records], run_id=name, device="cpu", label=Label(name=label))

    return store


def number(quantity: str) -> float:
    value, prefix = re.fullmatch(r"([\d.,]+) ([TGM]?)FLOP/s", quantity).groups()  # type: ignore[union-attr]
    return float(value.replace(",", "")) * {"T": 1e12, "G": 1e9, "M": 1e6}[prefix]


def test_the_ratio_is_of_the_results_that_are_listed(stored: Stored) -> None:
    joined = read_runs([stored("a", product(512, 1e-3, 0.02)), stored("b", product(512, 1e-3, 0.3))])
    first, other = same_points(joined).shown[0].entries
    assert other.ratio is not None
    ratio = float(other.ratio.value.removeprefix("× "))
    assert number(other.compared) / number(first.compared) == pytest.approx(ratio, rel=0.01)
    medians = [number(entry.row.reading.quantity) for entry in (first, other)]
    assert medians[1] / medians[0] != pytest.approx(ratio, rel=0.1)
    text = Tags(render_joined(joined)).text
    assert first.compared in text
    assert other.compared in text


def test_results_that_are_compared_themselves_are_not_listed_twice(stored: Stored) -> None:
    joined = read_runs([stored(name, training("cpu", "float32", s)) for name, s in (("a", 0.1), ("b", 0.2))])
    assert [entry.compared for entry in same_points(joined).shown[0].entries] == ["", ""]


def test_compare_prints_the_results_that_the_ratio_is_of(stored: Stored) -> None:
    sides = [stored("a", product(512, 1e-3, 0.02), label="old"), stored("b", product(512, 1e-3, 0.3), label="new")]
    comparison = compare(sides[:1], sides[1:])
    assert comparison.labels == (("old",), ("new",))
    (row,) = document_of_comparison(comparison, ()).rows
    a, b = (number(str(row.values[f"compared_{side}"])) for side in "ab")
    assert b / a == pytest.approx(row.values["speed"], rel=0.01)


def bars_of(joined: Joined) -> ElementTree.Element:
    return ElementTree.fromstring(
        str(bars_plot(same_points(joined).shown, "bars")).replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"')
    )


def test_bars_are_as_long_as_results_and_noisy_ones_are_marked(stored: Stored) -> None:
    noisy = product(1024, 4e-3, 0.001, noise=["steal: 9 %"])
    joined = read_runs(
        [
            stored("a", product(512, 1e-3, 0.001), product(1024, 2e-3, 0.001)),
            stored("b", product(512, 2e-3, 0.001), noisy),
        ]
    )
    drawing = bars_of(joined)
    title = drawing.find(f"{SVG}title")
    assert title is not None
    assert drawing.get("aria-labelledby") == title.get("id")
    assert drawing.get("role") == "img"
    rects = [group.find(f"{SVG}rect") for group in drawing.iter(f"{SVG}g")]
    lengths = [float(str(rect.get("width")).removesuffix("%")) for rect in rects if rect is not None]
    assert lengths[1] / lengths[0] == pytest.approx(0.5, rel=0.01)
    assert lengths[3] / lengths[2] == pytest.approx(0.5, rel=0.01)
    assert ["noisy" in str(rect.get("class")) for rect in rects if rect is not None] == [False, False, False, True]
    assert max(lengths) < 70, "the rest of the width is for the text"


def test_bars_of_unknown_work_and_hostile_names_are_drawn(stored: Stored) -> None:
    joined = read_runs([stored(name, record("launch"), label=HOSTILE) for name in ("a", "b")])
    drawing = bars_of(joined)
    assert sum(group.find(f"{SVG}rect") is not None for group in drawing.iter(f"{SVG}g")) == 2
    assert not [element for element in drawing.iter() if element.tag.endswith("script")]


def test_the_ceilings_of_all_runs_are_in_one_table(stored: Stored) -> None:
    joined = read_runs([stored(name, *cpu_records()) for name in ("a", "b", "c")])
    page = render_joined(joined)
    table = page[page.index('aria-label="Table: ceilings"') :].partition("</table>")[0]
    assert table.count('<tr><th scope="row">') == len(joined.runs[0].ceilings)
    assert [table.count(f'data-label="{name}"') for name in ("a", "b", "c")] == [len(joined.runs[0].ceilings)] * 3


def test_page_and_terminal_summarize_the_speed_of_each_run(stored: Stored) -> None:
    joined = read_runs([stored("a", product(512, 1e-3, 0.001)), stored("b", product(512, 5e-4, 0.001))])
    out = io.StringIO()
    print_runs(joined, PlainConsole(file=out, width=120))
    page = render_joined(joined)
    assert re.findall(r'<section id="(\w+)"', page)[0] == "speed"
    for text in (" ".join(out.getvalue().split()), " ".join(Tags(page).text.split())):
        assert "relative to a: matmul × 2.00 (1 point)" in text
