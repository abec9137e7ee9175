"""`export --openmetrics`, read with Prometheus's own parsers."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import parser as text_format
from prometheus_client.openmetrics import parser as openmetrics_format

from accelbench.__main__ import main
from accelbench.execution.store import RunStore
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric
from accelbench.report.openmetrics import openmetrics
from accelbench.report.stored_run import Run
from tests.fixtures.report_node import gpu_records
from tests.fixtures.report_records import HOSTILE, record, unmeasured
from tests.fixtures.report_runs import make_run

Captured = pytest.CaptureFixture[str]
Series = tuple[str, frozenset[tuple[str, str]]]


@pytest.fixture(scope="module")
def plain_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a run of one point."""
    return Run.of(make_run(tmp_path_factory.mktemp("plain") / "run", [record("nqueens")]))


def read(text: str) -> dict[Series, float]:
    """Return every series by its name and labels; both parsers must agree."""
    found: list[dict[Series, float]] = []
    for parser in (openmetrics_format, text_format):
        samples = [each for family in parser.text_string_to_metric_families(text) for each in family.samples]
        series = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}
        assert len(series) == len(samples)
        found.append(series)
    assert found[0] == found[1]
    return found[0]


def only(series: dict[Series, float], name: str, **labels: str) -> float:
    """Return the value of the only series of that name with these labels."""
    (value,) = (
        value for (called, has), value in series.items() if called == name and labels.items() <= dict(has).items()
    )
    return value


def test_every_result_of_a_run_is_in_the_text(capsys: Captured, tmp_path: Path) -> None:
    failure = unmeasured("uts", "failed", "the worker was killed")
    noisy = record("nqueens", noise=["other work took 90 % of a CPU"], metrics={"speed-up": Metric(2.5, "")})
    make_run(tmp_path / "run", [*gpu_records(), noisy, failure])
    assert main(["export", str(tmp_path / "run"), "--openmetrics"]) == 0
    series = read(capsys.readouterr().out)
    run = Run.of(RunStore(tmp_path / "run"))
    for row in run.rows:
        place = {"benchmark": row.record.point.benchmark, "point": row.record.point.details}
        interval = row.record.rate_interval()
        assert interval
        found = [only(series, f"accelbench_{name}", **place) for name in ("figure", "figure_low", "figure_high")]
        assert found == pytest.approx(interval)
        assert only(series, "accelbench_point_measured", **place) == 1
    product = {"benchmark": "matmul", "impl": "vendor", "dtype": "bfloat16", "n": "8192"}
    assert 0 < only(series, "accelbench_share_of_peak_ratio", **product) < 1
    assert only(series, "accelbench_point_disturbed", benchmark="nqueens") == 1
    assert only(series, "accelbench_metric", benchmark="nqueens", metric="speed-up") == 2.5
    assert only(series, "accelbench_point_measured", benchmark="uts") == 0
    assert only(series, "accelbench_points", outcome="failed") == 1
    assert only(series, "accelbench_run_created_timestamp_seconds") == run.info.created.timestamp()
    assert only(series, "accelbench_run", run=run.info.run_id) == 1


def test_the_next_run_has_the_same_series(tmp_path: Path) -> None:
    texts = []
    for number in (1, 2):
        make_run(tmp_path / f"run{number}", [record("nqueens"), record("matmul")], run_id=f"run{number}")
        texts.append(openmetrics(Run.of(RunStore(tmp_path / f"run{number}"))))
    of_points = [{series for series in read(text) if "run" not in dict(series[1])} for text in texts]
    assert of_points[0] == of_points[1]
    assert of_points[0]


def test_node_exporter_finds_only_gauges_without_time_stamps(tmp_path: Path) -> None:
    make_run(tmp_path / "run", gpu_records())
    text = openmetrics(Run.of(RunStore(tmp_path / "run")))
    families = list(text_format.text_string_to_metric_families(text))
    assert {family.type for family in families} == {"gauge"}
    assert {sample.timestamp for family in families for sample in family.samples} == {None}
    assert text.endswith("# EOF\n")


@given(axes=st.dictionaries(st.text(min_size=1), st.text() | st.integers(), max_size=4))
def test_axes_may_have_any_name(plain_run: Run, axes: dict[str, str | int]) -> None:
    (plain,) = plain_run.records
    odd = plain.model_copy(update={"point": Point("nqueens", "cpu", axes)})
    series = read(openmetrics(Run(plain_run.info, [odd])))
    assert only(series, "accelbench_figure", benchmark="nqueens", device="cpu") > 0


def test_label_values_are_escaped(tmp_path: Path) -> None:
    make_run(tmp_path / "run", [record("nqueens", metrics={HOSTILE + '"} 1\nowned': Metric(1.0, HOSTILE)})])
    text = openmetrics(Run.of(RunStore(tmp_path / "run")))
    assert "\x1b" not in text
    assert not any(name == "owned" for name, _ in read(text))


def test_the_file_is_complete_and_its_path_printed(capsys: Captured, tmp_path: Path) -> None:
    make_run(tmp_path / "run", [record("nqueens")])
    file = tmp_path / "accelbench.prom"
    assert main(["export", str(tmp_path / "run"), "--openmetrics", "--out", str(file)]) == 0
    assert capsys.readouterr().out == f"metrics {file}\n"
    assert read(file.read_text(encoding="utf-8"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["accelbench.prom", "run"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["RUN"], "--openmetrics"),
        (["nowhere", "--openmetrics"], "nowhere"),
        (["RUN", "--openmetrics", "--out", "missing/file.prom"], "missing/file.prom"),
    ],
)
def test_wrong_use_is_reported(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "run", [record("nqueens")])
    assert main(["export", *(word.replace("RUN", "run") for word in words)]) in (1, 2)
    assert message in capsys.readouterr().err
