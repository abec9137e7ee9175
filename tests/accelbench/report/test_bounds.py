"""Bounds and shares of clean samples in the terminal, the page, the tables and the exports."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from accelbench.__main__ import main
from accelbench.execution.store import RunStore
from accelbench.output.format import read_result
from accelbench.output.format import share as share_text
from accelbench.profiling.analysis.roofline import ceilings, share_of_ceiling
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.timing import SampleCauses, Timing
from accelbench.profiling.records.work import Bound, Work
from accelbench.report.joined import read_runs
from accelbench.report.openmetrics import openmetrics
from accelbench.report.same_points import same_points
from accelbench.report.stored_run import Run
from tests.fixtures.report_pages import page_of, printed
from tests.fixtures.report_records import record, timing
from tests.fixtures.report_runs import make_run

REASON = "only 2 of 40 samples were undisturbed: threads waited for a CPU"
OF_FLOAT32 = Bound(resource="arithmetic", dtype="float32", cores="all")
WORK = Work(flops=1e9)


def with_causes(plain: Timing, disturbed: int, reason: str | None = None) -> Timing:
    """Return the timing with the last samples disturbed."""
    total = len(plain.samples)
    columns: dict[str, Any] = {"first": [total - disturbed], "count": [disturbed], "waited_s": [0.1], "switches": [3]}
    columns |= {"stolen_s": [0], "throttled_s": [0], "stopped_s": [0]}
    used = [(0, total if reason else total - disturbed)]
    return plain.model_copy(
        update={"causes": SampleCauses(source="schedstat", used=used, **columns), "upper_bound": reason}
    )


def product(median: float, disturbed: int, reason: str | None = None, **changes: Any) -> Record:
    made = with_causes(timing(median), disturbed, reason)
    return record("matmul", timing=made, work=WORK, bound=OF_FLOAT32, figure="flops", **changes)


def bound_of(median: float = 2e-3, **changes: Any) -> Record:
    return product(median, 38, REASON, **changes)


def test_a_bound_has_a_sign_and_no_interval() -> None:
    rate = read_result(bound_of())
    assert rate is not None
    assert (rate.quantity, rate.interval) == ("≥ 500 GFLOP/s", "")
    time = read_result(record("launch", figure="time", timing=bound_of().timing, work=None))
    assert time is not None
    assert (time.quantity[:2], time.interval) == ("≤ ", "")
    estimate = read_result(product(2e-3, 10))
    assert estimate is not None
    assert float(estimate.value) == pytest.approx(500, rel=0.01)
    assert estimate.interval


def test_a_clean_point_has_a_share_of_a_clean_ceiling_only() -> None:
    clean, bound = product(1e-3, 20, ceiling=True), bound_of(ceiling=True)
    point = product(4e-3, 20)
    assert share_of_ceiling(point, ceilings([clean])).value == pytest.approx(0.25, rel=0.01)
    unknown = share_of_ceiling(point, ceilings([bound]))
    assert unknown.value is None
    assert unknown.doubtful is not None
    assert share_text(unknown).startswith("≈ ")
    at_least = share_of_ceiling(bound_of(4e-3), ceilings([clean]))
    assert at_least.at_least
    assert share_text(at_least).startswith("≥ 2")


def test_each_output_states_the_bound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = make_run(tmp_path / "run", [bound_of(), record("nqueens", timing=with_causes(timing(1e-3), 30))])
    run = Run.of(store)
    assert (run.counts.disturbed, run.counts.bounds, run.counts.noisy) == (1, 1, 0)
    assert run.light == "disturbed"
    assert [row.noisy for row in run.rows] == [False, False]
    assert [flag.word for flag in run.rows[0].flags] == ["bound"]
    assert [row.few_clean and row.few_clean.split()[0] for row in run.rows] == ["5.0", "25"]
    text = printed(store)
    assert "≥ 500 GFLOP/s" in text
    assert REASON in " ".join(text.split())
    series = [line for line in openmetrics(run).splitlines() if "matmul" in line]
    assert [line[-3:] for line in series if line.startswith("accelbench_point_bound{")] == ["1.0"]
    assert not [line for line in series if line.startswith("accelbench_figure_high{")]
    assert [line for line in series if line.startswith("accelbench_figure_low{")]
    assert main(["report", str(tmp_path / "run"), "--format", "json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["rows"]
    assert (first["condition"], first["high"], first["low"]) == ("bound", None, first["rate"])
    assert (second["condition"], second["clean_share"]) == ("clean", 0.25)
    with (RunStore(tmp_path / "run").path / "records.csv").open(encoding="utf-8", newline="") as file:
        of_bound, of_clean = csv.DictReader(file)
    assert (of_bound["upper_bound"], of_bound["rate_high"]) == (REASON, "")
    assert (of_clean["upper_bound"], of_clean["clean_share"]) == ("", "0.25")


def test_the_page_has_the_bound_and_its_reason(tmp_path: Path) -> None:
    page = page_of(tmp_path / "run", [bound_of()])
    assert "≥ 500" in page
    assert REASON in page


def test_two_bounds_have_no_ratio(tmp_path: Path) -> None:
    stores = [
        make_run(tmp_path / name, [bound_of(median)], run_id=name) for name, median in (("one", 1e-3), ("two", 2e-3))
    ]
    (point,) = same_points(read_runs(stores)).shown
    ratio = point.entries[1].ratio
    assert ratio is not None
    assert (ratio.value, ratio.interval) == ("–", "")
