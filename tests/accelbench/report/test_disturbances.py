"""Disturbances of a run over time: causes with their times, and the drawing of measurements and load."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from accelbench.execution.store import RunStore, Settings
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.telemetry import Telemetry
from accelbench.profiling.records.timing import Phases, SampleCauses
from accelbench.report.disturbance_plot import draw_timeline
from accelbench.report.disturbances import BINS, RunTimeline, timeline
from accelbench.report.page import render_page
from accelbench.report.section import Run
from tests.fixtures.report_pages import printed
from tests.fixtures.report_records import record, timing
from tests.fixtures.report_runs import make_run

SVG = "{http://www.w3.org/2000/svg}"
MEASURE_S = 2.0


def repetition(number: int, benchmark: str, counters: dict[str, float], **changes: Any) -> Record:
    """Return a repetition of 6 s, the last 2 s of which are its sampling; `make_run` starts one every 7 s."""
    telemetry = Telemetry(interval_s=0.1, gauges={}, counters=counters)
    phases = Phases(prepare_s=4.0, measure_s=MEASURE_S)
    return record(benchmark, round=number, order=number, telemetry=telemetry, elapsed_s=6.0, phases=phases, **changes)


def busy_run(path: Path, **changes: Any) -> RunStore:
    """Return a run of two points with two repetitions; others use 0.9 CPUs during the second ones."""
    lines = []
    for number, other_s in ((1, 0.0), (2, 0.9 * MEASURE_S)):
        noise = ["other processes used 0.9 of 2 CPUs"] if other_s else []
        lines += [
            repetition(number, name, {"cpu.other_s": other_s, "cpu.steal_s": 0.0}, noise=noise, **changes)
            for name in ("queens", "launch")
        ]
    return make_run(path, lines, plan=[line.point for line in lines[:2]], settings=Settings(rounds=2))


def drawn(store: RunStore) -> RunTimeline:
    found = timeline(Run.of(store))
    assert found is not None
    return found


def test_a_cause_has_the_times_of_its_measurements(tmp_path: Path) -> None:
    (cause,) = Run.of(busy_run(tmp_path / "run")).causes
    assert (cause.when, len(cause.rows)) == ("09:27 UTC", 2)
    assert (cause.ended - cause.began).total_seconds() == 7 + 6
    page = render_page(Run.of(RunStore.open(tmp_path / "run")))
    flags = page[page.index('id="flags"') :]
    assert flags.count("other processes used 0.9 of 2 CPUs in repetition 2") == 1
    assert f"{cause.when} · 2 points" in flags
    line = f"noisy: {cause.sentence} (2 points, {cause.when})"
    for verbose in (False, True):
        assert (line in printed(RunStore.open(tmp_path / "run"), 200, verbose)) is verbose


def test_measurements_and_load_have_the_same_time_axis(tmp_path: Path) -> None:
    found = drawn(busy_run(tmp_path / "run"))
    assert [(span.begin_s, span.end_s, bool(span.disturbances)) for span in found.spans] == [
        (0, 6, False),
        (7, 13, False),
        (14, 20, True),
        (21, 27, True),
    ]
    (lane,) = found.lanes  # nothing was stolen
    assert lane.maximum == pytest.approx(0.9)
    times = (np.arange(BINS) + 0.5) / BINS * found.duration_s
    sampled = np.any([(begin < times) & (times < begin + MEASURE_S) for begin in (4, 11, 18, 25)], axis=0)
    edge = np.min([abs(times - end) for begin in (4, 11, 18, 25) for end in (begin, begin + 2)], axis=0) < 0.2
    assert (np.isfinite(lane.values) == sampled)[~edge].all()
    assert np.allclose(lane.values[sampled & ~edge], 0.9 * (times[sampled & ~edge] > 14))


def test_the_waiting_of_threads_is_at_the_time_of_its_samples(tmp_path: Path) -> None:
    causes = SampleCauses(source="schedstat", used=[(0, 20)], first=[20], count=[20], waited_s=[0.5], switches=[4])
    waited = timing(MEASURE_S / 40, causes=causes, spread=1e-6)
    noise = ["the machine swapped 12 MiB"]
    found = drawn(make_run(tmp_path / "run", [repetition(1, "queens", {}, timing=waited, noise=noise)]))
    (lane,) = found.lanes
    times = (np.arange(BINS) + 0.5) / BINS * found.duration_s
    assert lane.maximum == pytest.approx(0.5, rel=0.01)  # of the sampling from 4 s to 6 s, the second half
    assert times[np.nan_to_num(lane.values) > 0].min() == pytest.approx(5.0, abs=0.05)


def test_a_clean_run_and_a_very_large_one_have_no_drawing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = make_run(tmp_path / "quiet", [repetition(1, "queens", {"cpu.other_s": 0.5})])
    assert timeline(Run.of(quiet)) is None
    assert 'class="timeline"' not in render_page(Run.of(quiet))
    monkeypatch.setattr("accelbench.report.disturbances.MOST_SPANS", 3)
    assert timeline(Run.of(busy_run(tmp_path / "large"))) is None


def test_the_drawing_has_title_description_and_tooltips_and_fits_any_width(tmp_path: Path) -> None:
    found = drawn(busy_run(tmp_path / "run"))
    root = ElementTree.fromstring(draw_timeline(found, "name"))
    assert root.get("viewBox") is None
    named = {element.get("id"): element for element in root}
    assert named[root.get("aria-labelledby")].tag == f"{SVG}title"
    assert named[root.get("aria-describedby")].tag == f"{SVG}desc"
    spans = [rect for rect in root.iter(f"{SVG}rect") if rect.find(f"{SVG}title") is not None]
    assert len(spans) == 4
    assert ["--warn" in (rect.get("style") or "") for rect in spans] == [False, False, True, True]
    assert "0.9 of 2 CPUs" in (spans[-1].findtext(f"{SVG}title") or "")
    for rect in root.iter(f"{SVG}rect"):
        x, width = (float((rect.get(name) or "").rstrip("%")) for name in ("x", "width"))
        assert x >= 0
        assert x + (width if (rect.get("width") or "").endswith("%") else 0) <= 100.01
    labels = [element for element in root.iter(f"{SVG}text") if element.get("x") != "0.00%"]
    assert 2 <= len(labels) <= 6


def test_implausible_times_and_loads_of_a_foreign_run_are_cut(tmp_path: Path) -> None:
    late = datetime(2999, 12, 31, tzinfo=UTC)
    lines = [
        repetition(1, "queens", {"cpu.other_s": 1e300, "cpu.steal_s": 1e12}, noise=["noise"]),
        repetition(2, "queens", {"cpu.other_s": 1.0}, noise=["noise"]),
    ]
    store = make_run(tmp_path / "run", lines, plan=[lines[0].point], settings=Settings(rounds=2))
    text = store.records_path.read_text(encoding="utf-8")
    text = text.replace('"elapsed_s":6.0', '"elapsed_s":1e12').replace("2026-03-14T09:27:00Z", late.isoformat())
    store.records_path.write_text(text, encoding="utf-8")
    assert late.isoformat() in text
    drawing = draw_timeline(drawn(store), "name")
    assert "nan" not in drawing
    assert "inf" not in drawing
    assert 'class="timeline"' in render_page(Run.of(store))


@pytest.mark.parametrize("hours", [0.001, 0.3, 7, 100, 2000])
def test_the_axis_has_few_labels_for_any_duration(hours: float, tmp_path: Path) -> None:
    long = repetition(1, "queens", {}, noise=["noise"]).model_copy(update={"elapsed_s": 3600 * hours})
    root = ElementTree.fromstring(draw_timeline(drawn(make_run(tmp_path / "run", [long])), "name"))
    assert len(list(root.iter(f"{SVG}text"))) <= 1 + 6
