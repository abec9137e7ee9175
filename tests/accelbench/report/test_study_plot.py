"""Studies: training time and quality against a swept axis, on all devices."""

from __future__ import annotations

import re
from math import inf, isnan, nan
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.profiling.records.quality import Data, Metric, Quality
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import Work
from accelbench.profiling.timing.steady import steady_steps
from accelbench.report.page import render_page
from accelbench.report.rows import make_rows
from accelbench.report.section import Run
from accelbench.report.study import CHOICES, DASHED, SWEEPS, Study, StudySweep, make_studies
from accelbench.report.study_plot import DASHES, Styles, study_plot
from tests.fixtures.report_node import study_records
from tests.fixtures.report_records import HOSTILE, record, stepped, studied, timing, unmeasured
from tests.fixtures.report_runs import make_run

UNITS, LAYERS = (32, 64, 128, 256), (1, 2, 3)


def lstm(units: int, device: str = "cpu", seconds: float = 10.0, accuracy: float = 0.9, **changes: Any) -> Record:
    """Return a point of a sweep over units; keywords are further axes."""
    axes = {name: changes.pop(name) for name in list(changes) if name not in {*Record.model_fields, "backend"}}
    data = Data("drawn", train=4500, held_out=500, trainings=axes.get("repeats", 1))
    changes = {"data": data} | changes
    return studied("bilstm", device, seconds, accuracy, params={"units": units, **axes}, **changes)


def studies_of(records: list[Record]) -> list[Study]:
    return make_studies([(row.record.point.device, row) for row in make_rows(records)])


def study_of(records: list[Record]) -> Study:
    (study,) = studies_of(records)
    return study


def axes_of(records: list[Record]) -> list[str]:
    return [sweep.axis for sweep in study_of(records).sweeps]


def values(sweep: StudySweep, number: int = 0) -> dict[tuple[str, str], list[tuple[int, float]]]:
    """Return the points of each line in a panel: 0 for the time, 1 for the quality."""
    return {
        (line.where, line.choice): [(found.place, found.value) for found in sweep.measures[number].values(line)]
        for line in sweep.lines
    }


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("text")]


def drawn_lines(svg: str) -> list[int]:
    """Return the number of points of each line in the panels, without the legend."""
    panels = svg[: svg.find('-legend_1"')] if "-legend_1" in svg else svg
    paths = re.findall(r'<path d="([^"]+)"[^>]*style="[^"]*fill: none[^"]*stroke: var\(--series-\d\)', panels)
    return [path.count("L") + 1 for path in paths]


def test_kimm2021_is_drawn_against_units_and_layers_for_every_device() -> None:
    study = study_of(study_records())
    assert (study.benchmarks, study.places) == (("bilstm-har",), ("cpu", "gpu"))
    assert study.common == "batch=64 repeats=5"
    units, layers = study.sweeps
    assert (units.axis, layers.axis) == ("units", "layers")
    time = values(units)
    assert len(time) == 2 * len(LAYERS)
    assert time["cpu", "layers=2"] == [(u, pytest.approx(610 / 5 * 2 * (u / 256) ** 1.6)) for u in UNITS]
    assert time["gpu", "layers=1"][-1] == (256, pytest.approx(11 / 5))
    quality = values(layers, 1)
    assert len(quality) == 2 * len(UNITS)
    assert quality["gpu", "units=32"] == [(n, pytest.approx(0.88 + 0.01 * n)) for n in LAYERS]
    assert [m.title for m in layers.measures] == ["training time", "test accuracy"]


def test_the_drawing_has_labels_and_every_line_in_both_panels() -> None:
    svg = study_plot(study_of(study_records()).sweeps[0], "study")
    assert {"cpu", "gpu", "layers=1", "layers=2", "layers=3", "number of units", *map(str, UNITS)} <= set(texts(svg))
    assert {"training time", "test accuracy"} <= set(texts(svg))
    assert drawn_lines(svg).count(len(UNITS)) == 2 * 2 * len(LAYERS)
    assert "bilstm-har against the number of units" in svg


def test_lines_are_sorted_by_the_axis() -> None:
    (sweep,) = study_of([lstm(units, seconds=units / 10) for units in (256, 32, 128)]).sweeps
    assert values(sweep) == {("cpu", ""): [(32, 3.2), (128, 12.8), (256, 25.6)]}
    (path, _) = re.findall(r'<path d="(M[^"]+)"[^>]*stroke: var\(--series-1\)[^"]*"', study_plot(sweep, "study"))[:2]
    places = [float(x) for x in re.findall(r"[ML] ([\d.]+)", path)]
    assert places == sorted(places)
    # On a logarithmic axis the distance of 32 and 128 is twice that of 128 and 256.
    assert places[1] - places[0] == pytest.approx(2 * (places[2] - places[1]), abs=0.01)


def test_the_time_axis_is_logarithmic_only_for_a_wide_range() -> None:
    near = study_plot(study_of([lstm(u, seconds=u / 10) for u in (64, 128)]).sweeps[0], "study")
    far = study_plot(study_of([lstm(u, d, s) for u in (64, 128) for d, s in (("cpu", 600), ("gpu", 3))]).sweeps[0], "a")
    assert "0 s" in texts(near)
    assert "0 s" not in texts(far)
    assert {"5 s", "500 s"} <= set(texts(far))


def test_backends_on_one_device_have_their_own_lines() -> None:
    study = study_of([lstm(u, "gpu", backend=backend) for backend in ("jax", "torch") for u in UNITS])
    assert study.places == ("gpu jax", "gpu torch")
    assert set(values(study.sweeps[0])) == {("gpu jax", ""), ("gpu torch", "")}


def test_a_device_with_a_single_value_is_a_point() -> None:
    records = [lstm(1, "cpu", 300, batch=50), *(lstm(n, "gpu", 12 / n, batch=48) for n in (1, 2, 4))]
    (sweep,) = study_of(records).sweeps
    assert {key: len(points) for key, points in values(sweep).items()} == {
        ("cpu", "batch=50"): 1,
        ("gpu", "batch=48"): 3,
    }


def test_sweeps_around_a_common_point_have_one_line_per_axis() -> None:
    records = [lstm(u, batch=64) for u in UNITS] + [lstm(64, batch=b) for b in (32, 128)]
    units, batch = study_of(records).sweeps
    assert set(values(units)) == {("cpu", "batch=64")}
    assert set(values(batch)) == {("cpu", "units=64")}
    assert len(values(batch)["cpu", "units=64"]) == 3


def test_the_time_is_per_training_run_without_compilation() -> None:
    def first(repeats: int, **seconds: float) -> float:
        metrics = {name: Metric(value, "s") for name, value in seconds.items()}
        (sweep,) = study_of([lstm(u, repeats=repeats, metrics=metrics) for u in (32, 64)]).sweeps
        return next(iter(values(sweep).values()))[0][1]

    assert first(1, training=13.0) == 13.0
    assert first(1, training=13.0, compile=3.0) == 10.0
    assert first(2, training=26.0, compile=3.0) == 10.0, "each repeat compiles again"


def test_the_rate_is_drawn_if_the_amount_of_data_differs() -> None:
    records = [
        lstm(
            4, batch=b, data=Data("drawn", train=20 * b, held_out=9), work=Work(items=b, item="words"), timing=steps(b)
        )
        for b in (64, 256)
    ]
    (sweep,) = study_of(records).sweeps
    assert sweep.measures[0].title == "words per second"
    assert values(sweep) == {("cpu", ""): [(64, pytest.approx(6400, 0.02)), (256, pytest.approx(25600, 0.02))]}


def steps(batch: int) -> Any:
    return timing(0.01, count=31, seed=batch, timer="steps", stop="epochs done")


def test_lines_and_points_have_tooltips() -> None:
    (sweep,) = study_of([lstm(u) for u in UNITS]).sweeps
    tooltips = re.findall(r"<title>([^<]*)</title>", study_plot(sweep, "study"))
    assert tooltips.count("cpu") == 2  # a panel for the time, and one for the quality
    for units in UNITS:
        assert any(text.startswith(f"cpu: units={units}, 10.0 s ±") for text in tooltips)
        assert f"cpu: units={units}, 0.9" in tooltips


def test_the_headline_quality_metric_is_drawn() -> None:
    metrics = {"training": Metric(3.0, "s"), "reconstruction_error": Metric(9.0), "test_loss": Metric(0.4)}
    found = metrics | {"test_map": Metric(0.31), "test_map50": Metric(0.5)}
    judged = [Quality("test_map"), Quality("test_map50", headline=True)]
    drawn = study_of([lstm(u, metrics=found, qualities=judged) for u in UNITS])
    assert drawn.sweeps[0].measures[1].title == "test map50"
    (only_time,) = study_of([lstm(u, metrics=metrics) for u in UNITS]).sweeps
    assert [m.title for m in only_time.measures] == ["training time"]
    assert "test" not in "".join(texts(study_plot(only_time, "study")))


def test_bars_are_the_interval_of_the_rate_and_the_deviation_over_repeats() -> None:
    (sweep,) = study_of([lstm(u) for u in UNITS]).sweeps
    (line,) = sweep.lines
    assert ["interval" in bar for bar in sweep.bars] == [True, False]
    assert "standard deviation" in sweep.bars[1]
    for (_, found), drawn in zip(line.points, sweep.measures[0].values(line), strict=True):
        rate, slow, fast = found.rate_interval("items") or (nan, nan, nan)
        assert drawn.low < drawn.value < drawn.high
        assert (drawn.low, drawn.high) == (pytest.approx(10 * rate / fast), pytest.approx(10 * rate / slow))
    for drawn in sweep.measures[1].values(line):
        assert (drawn.low, drawn.high) == (pytest.approx(0.896), pytest.approx(0.904))
    assert study_plot(sweep, "study").count("LineCollection") == 2


@pytest.mark.parametrize("bound", [None, "other processes used the CPUs"])
@given(st.floats(1e-6, 1e3), st.floats(1e-3, 1e5))
def test_a_time_is_in_its_bar_and_a_bound_has_none(bound: str | None, step: float, total: float) -> None:
    steps = steady_steps([[step], [1.1 * step], [1.3 * step]])
    if bound:
        steps = steps.model_copy(update={"mean": steps.ci_high})
    timed = timing(step, timer="steps", stop="epochs done").model_copy(update={"steady": steps, "upper_bound": bound})
    (sweep,) = study_of([lstm(u, metrics={"training": Metric(total, "s")}, timing=timed) for u in UNITS]).sweeps
    for point in sweep.measures[0].values(sweep.lines[0]):
        assert isnan(point.low) if bound else point.low <= point.value <= point.high


def test_a_single_time_has_no_bar_and_a_quality_metric_the_interval_of_its_examples() -> None:
    once = [lstm(u, timing=timing(0.01, count=1, timer="steps", stop="epochs done")) for u in UNITS]
    once = [found.model_copy(update={"timing": stepped(found.timing)}) for found in once if found.timing]
    for found in once:
        del found.metrics["test_accuracy_std"]
    (sweep,) = study_of(once).sweeps
    (bar,) = sweep.bars
    assert "number of examples" in bar
    assert study_plot(sweep, "study").count("LineCollection") == 1


def test_a_measured_time_with_compilation_is_a_hollow_marker(tmp_path: Path) -> None:
    metrics = {"training": Metric(13.0, "s"), "compile": Metric(3.0, "s")}
    records = [lstm(32, metrics=metrics), lstm(64, metrics=metrics), lstm(128)]
    (sweep,) = study_of(records).sweeps
    wholes = [found.with_compilation for found in sweep.measures[0].values(sweep.lines[0])]
    assert wholes[:2] == [13.0, 13.0]
    assert isnan(wholes[2])
    assert "with compilation" in texts(study_plot(sweep, "study"))
    assert "Hollow markers" in render_page(Run.of(make_run(tmp_path / "run", records)))
    (bare,) = study_of([lstm(u) for u in UNITS]).sweeps
    assert not bare.compiled
    assert "with compilation" not in texts(study_plot(bare, "study"))


def model(name: str, units: int, **changes: Any) -> Record:
    data = Data("reviews", train=2000, held_out=500)
    axes = changes.pop("axes", {"units": units})
    return studied(name, "cpu", units / 10, 0.8, **{"params": axes, "data": data} | changes)


def test_models_with_the_same_data_and_axis_share_a_drawing() -> None:
    study = study_of([model(name, u, axes={"units": u, "length": 80}) for name in ("lstm", "gru") for u in UNITS])
    assert (study.benchmarks, study.common) == (("lstm", "gru"), "length=80")
    (sweep,) = study.sweeps
    assert {key: len(points) for key, points in values(sweep).items()} == {("cpu", "lstm"): 4, ("cpu", "gru"): 4}
    svg = study_plot(sweep, "study")
    assert {"lstm", "gru"} <= set(texts(svg))
    assert "lstm and gru against the number of units" in svg


@pytest.mark.parametrize(
    "other",
    [
        {"data": Data("reviews", train=4000, held_out=500)},
        {"data": Data("digits", train=2000, held_out=500)},
        {"work": Work(items=32, item="words")},
        {"qualities": [Quality("test_f1", headline=True)]},
        {"axes": "layers"},
    ],
    ids=["more data", "other data", "other items", "other quality", "other axis"],
)
def test_models_that_cannot_be_compared_have_their_own_drawings(other: dict[str, Any]) -> None:
    axis = other.pop("axes", "units")
    lstms, grus = [model("lstm", u) for u in UNITS], [model("gru", u, axes={axis: u}, **other) for u in UNITS]
    assert [study.benchmarks for study in studies_of([*lstms, *grus])] == [("lstm",), ("gru",)]


def test_every_line_has_its_own_style_with_more_places_than_dashes() -> None:
    assert len(DASHES) == DASHED
    places = [f"run {number}" for number in range(10)]
    rows = make_rows([lstm(u, layers=n) for u in (32, 64) for n in range(1, 8)])
    study = make_studies([(place, row) for place in places for row in rows])
    sweep = next(sweep for one in study for sweep in one.sweeps if sweep.axis == "units")
    assert (len(sweep.places), len(sweep.choices), sweep.left_out) == (10, DASHED, 2)
    styles = [Styles(sweep).of(line) for line in sweep.lines]
    used = {(style["color"], style["marker"], str(style["linestyle"])) for style in styles}
    assert len(used) == len(sweep.lines) == 50


@pytest.mark.parametrize(
    "records",
    [
        [],
        [lstm(64)],
        [lstm(64, "cpu"), lstm(64, "gpu")],
        [lstm(64, "cpu"), lstm(128, "gpu")],
        [lstm(64, cell="lstm"), lstm(64, cell="lstm\x00")],
        [lstm(64, cell=cell) for cell in ("gru", "lstm")],
        [lstm(64), unmeasured("bilstm", "failed", "killed", params={"units": 128})],
        [lstm(64), lstm(128, seconds=nan)],
        [record("matmul", params={"n": n}) for n in (256, 512, 1024)],
    ],
    ids=[
        "nothing",
        "one point",
        "two devices",
        "not comparable",
        "one name twice",
        "words",
        "a failure",
        "no number",
        "no training",
    ],
)
def test_without_a_swept_axis_there_is_no_study(records: list[Record]) -> None:
    assert studies_of(records) == []


def test_failed_points_and_nan_are_left_out() -> None:
    records = [
        *(lstm(u, seconds=u / 10) for u in UNITS),
        unmeasured("bilstm", "failed", "out of memory", params={"units": 512}),
        unmeasured("bilstm", "skipped", "too large", params={"units": 1024}),
        lstm(2048, seconds=inf),
        lstm(3000, seconds=0.0),
        lstm(4096, seconds=400.0, accuracy=nan),
    ]
    (sweep,) = study_of(records).sweeps
    (time,), (quality,) = values(sweep).values(), values(sweep, 1).values()
    assert [x for x, _ in time] == [*UNITS, 4096]
    assert [x for x, _ in quality] == list(UNITS)
    assert drawn_lines(study_plot(sweep, "study"))[0] == 5


def test_the_axes_with_the_most_values_are_drawn() -> None:
    records = [
        lstm(u, layers=n, batch=b, image=i)
        for u in UNITS[:3]
        for n in (1, 2)
        for b in (16, 32, 64, 128)
        for i in (32, 64)
    ]
    assert axes_of(records) == ["batch", "units", "layers"]
    assert len(axes_of(records)) == SWEEPS


def test_too_many_choices_are_drawn_evenly_spaced_with_a_note(tmp_path: Path) -> None:
    records = [lstm(u, d, kernel=k) for d in ("cpu", "gpu") for u in (32, 64) for k in range(1, 21)]
    sweep = next(sweep for sweep in study_of(records).sweeps if sweep.axis == "units")
    assert len(sweep.choices) == CHOICES
    assert (sweep.choices[0], sweep.choices[-1], sweep.left_out) == ("kernel=1", "kernel=20", 20 - CHOICES)
    assert len(sweep.lines) == 2 * CHOICES, "the same on every device"
    store = make_run(tmp_path / "run", [lstm(u, kernel=k) for u in (32, 64) for k in range(1, 10)])
    assert f"{CHOICES} of 9 choices" in render_page(Run.of(store))


def test_names_are_text_and_not_markup(tmp_path: Path) -> None:
    hostile = {
        "params": {"units": 1, HOSTILE: HOSTILE},
        "backend": HOSTILE,
        "work": Work(items=3, item=HOSTILE),
        "metrics": {f"test_{HOSTILE}": Metric(0.5), "training": Metric(2.0, "s")},
    }
    records = [
        studied(HOSTILE, "cpu", 1.0, 0.5, **hostile | {"params": {HOSTILE: n, "mode": HOSTILE * (n % 2)}, "data": data})
        for n, data in enumerate([Data("x", train=9, held_out=1), Data("x", train=5, held_out=1)] * 3)
    ]
    store = make_run(tmp_path / "run", [*records, studied(HOSTILE, "cpu", 1.0, 0.5, **hostile)])
    page = render_page(Run.of(store))
    section = page[page.index('<section id="studies"') : page.index('<section id="benchmarks"')]
    assert "&lt;script&gt;" in section
    assert "<script" not in page
    assert "<img" not in page
    assert "\x1b" not in page


@pytest.mark.slow
@settings(deadline=None, max_examples=15)
@given(
    st.dictionaries(
        st.integers(0, 1 << 24),
        st.tuples(st.floats(1e-9, 1e12), st.floats(0, 1)),
        min_size=2,
        max_size=12,
    )
)
def test_any_values_can_be_drawn(points: dict[int, tuple[float, float]]) -> None:
    (sweep,) = study_of(
        [lstm(n, seconds=seconds, accuracy=accuracy) for n, (seconds, accuracy) in points.items()]
    ).sweeps
    assert drawn_lines(study_plot(sweep, "study")).count(len(points)) >= 2


def test_the_page_has_the_studies_and_is_reproducible(tmp_path: Path) -> None:
    store = make_run(tmp_path / "run", [*(lstm(u, layers=n) for u in (32, 64) for n in (1, 2)), record("one")])
    page = render_page(Run.of(store))
    for axis in ("units", "layers"):
        assert f"against the number of {axis}" in page
    assert page == render_page(Run.of(store))
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    without = make_run(tmp_path / "without", [record("one")])
    assert "#studies" not in render_page(Run.of(without))
