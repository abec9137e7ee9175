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
from accelbench.profiling.records.trace import PARTS, Breakdown
from accelbench.profiling.timing.statistics import summarize
from accelbench.report.rows import make_groups, make_rows
from accelbench.report.samples_plot import MOST_LABELS, STRIP, TICKS, samples, step_times
from tests.fixtures.report_profiles import profile, trace_analysis
from tests.fixtures.report_records import record, training
from tests.fixtures.report_runs import make_run

SVG = "{http://www.w3.org/2000/svg}"


def measured(values: list[float], **params: int) -> Record:
    timing = Timing(samples=values, stop="time limit", timer="host", summary=summarize(values))
    return record("fma", params=params, timing=timing)


def drawn(*records: Record) -> ElementTree.Element:
    (group,) = make_groups(make_rows(records))
    return ElementTree.fromstring(samples(group, group.rows, "drawing"))


def texts(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter("span")]


def test_each_point_has_its_label_and_the_number_of_its_samples() -> None:
    root = drawn(measured([1.0, 1.1, 1.2], n=1), measured([2.0] * 5, n=2))
    assert {"n=1", "n=2", "3 samples", "5 samples", "median"} <= set(texts(root))
    ids = {element.get("id") for element in root.iter("span")}
    assert all(drawing.get("aria-labelledby") in ids for drawing in root.iter(f"{SVG}svg"))


def test_samples_beyond_the_axes_are_counted_and_all_marks_stay_within() -> None:
    values = np.random.default_rng(0).normal(1.0, 0.001, 1000).tolist()
    values[:5] = [3.0] * 5
    root = drawn(measured(values))
    outside = [text.split(", ")[1] for text in texts(root) if text.endswith("slower →")]
    assert [int(text.split()[0]) >= 5 for text in outside] == [True]
    marks = [
        float(x) for path in root.iter(f"{SVG}path") for x in re.findall(r"M([\d.]+) [\d.]+v18", path.get("d", ""))
    ]
    assert len(marks) == TICKS
    assert all(0 <= mark <= STRIP for mark in marks)


@pytest.mark.parametrize("factor", [1.0, 1.0001, 1.5, 40.0, 1e6])
def test_an_axis_has_a_few_labels_at_any_scale(factor: float) -> None:
    root = drawn(measured([1.0, 1.0, 1.0, factor]))
    labels = [text for text in texts(root) if text.endswith(" %")]
    assert 1 <= len(labels) <= MOST_LABELS + 1
    assert next(span.get("class") for span in root.iter("span") if span.text == "median") == "even"


def test_labels_are_escaped() -> None:
    root = drawn(measured([1.0, 1.1], **{"<script>": 1}), measured([1.0, 1.1], **{"<script>": 2}))
    assert "<script>=1" in texts(root)


def test_the_time_line_has_a_mark_for_each_measured_and_each_profiled_step() -> None:
    trained = training("cpu", "float32", 0.02)
    assert trained.timing is not None
    of_steps = {"kernel": [0.03] * 7, "host": [0.001] * 7}
    steps = Breakdown(steps=7, step_s=0.031, parts=dict.fromkeys(PARTS, 0.0), of_steps=of_steps)
    traced = profile(trace=trace_analysis(breakdown=steps))
    marks = {}
    for found, expected in ((None, ["--series-1"]), (traced, ["--series-1", "--series-2"])):
        drawing = step_times(trained.model_copy(update={"profile": found}), "steps")
        assert drawing is not None
        root = ElementTree.fromstring(drawing)
        paths = [path for path in root.iter(f"{SVG}path") if "--series" in path.get("style", "")]
        marks = {color: path.get("d", "").count("M") for color, path in zip(expected, paths, strict=True)}
    assert marks == {"--series-1": len(trained.timing.samples), "--series-2": 7}
    assert step_times(record("launch"), "steps") is None


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
