"""Drawing of samples: marks within the axes, number of samples outside, and no drawing library."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from accelbench.profiling.records.record import Record
from accelbench.profiling.records.timing import Timing
from accelbench.profiling.timing.statistics import summarize
from accelbench.report.rows import make_groups, make_rows
from accelbench.report.samples_plot import MOST_LABELS, TICKS, samples
from tests.fixtures.report_records import record
from tests.fixtures.report_runs import make_run

SVG = "{http://www.w3.org/2000/svg}"


def measured(values: list[float], **params: int) -> Record:
    timing = Timing(samples=values, stop="time limit", timer="host", summary=summarize(values))
    return record("fma", params=params, timing=timing)


def drawn(*records: Record) -> ElementTree.Element:
    (group,) = make_groups(make_rows(records))
    return ElementTree.fromstring(samples(group, group.rows, "drawing"))


def texts(root: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in root.iter(f"{SVG}text")]


def test_each_point_has_its_label_and_the_number_of_its_samples() -> None:
    root = drawn(measured([1.0, 1.1, 1.2], n=1), measured([2.0] * 5, n=2))
    assert {"n=1", "n=2", "3 samples", "5 samples", "median"} <= set(texts(root))
    assert root.find(f"{SVG}title") is not None


def test_samples_beyond_the_axes_are_counted_and_all_marks_stay_within() -> None:
    values = np.random.default_rng(0).normal(1.0, 0.001, 1000).tolist()
    values[:5] = [3.0] * 5
    root = drawn(measured(values))
    outside = [text for text in texts(root) if text.endswith("slower →")]
    assert [int(text.split()[0]) >= 5 for text in outside] == [True]
    frame = next(path for path in root.iter(f"{SVG}path") if "H" in path.get("d", ""))
    left, right = (float(x) for x in re.findall(r"M([\d.]+) [\d.]+H([\d.]+)", frame.get("d", ""))[0])
    marks = [
        float(x) for path in root.iter(f"{SVG}path") for x in re.findall(r"M([\d.]+) [\d.]+v18", path.get("d", ""))
    ]
    assert len(marks) == TICKS
    assert all(left <= mark <= right for mark in marks)


@pytest.mark.parametrize("factor", [1.0, 1.0001, 1.5, 40.0, 1e6])
def test_an_axis_has_a_few_labels_at_any_scale(factor: float) -> None:
    labels = [text for text in texts(drawn(measured([1.0, 1.0, 1.0, factor]))) if text.endswith(" %")]
    assert 1 <= len(labels) <= MOST_LABELS + 1


def test_labels_are_escaped() -> None:
    root = drawn(measured([1.0, 1.1], **{"<script>": 1}), measured([1.0, 1.1], **{"<script>": 2}))
    assert "<script>=1" in texts(root)


def test_a_report_without_other_drawings_imports_no_drawing_library(tmp_path: Path) -> None:
    store = make_run(tmp_path / "run", [record("launch")])
    code = """
import pathlib, sys
from accelbench.report import write_report
from accelbench.execution.store import RunStore
write_report(RunStore.open(pathlib.Path(sys.argv[1])))
print(sorted({"pandas", "matplotlib"} & set(sys.modules)))
"""
    process = subprocess.run([sys.executable, "-c", code, store.path], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"
    assert "<svg" in (store.path / "report.html").read_text(encoding="utf-8")
