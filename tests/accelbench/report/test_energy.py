"""Energy of the points on page, terminal and in the tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from accelbench.__main__ import main
from accelbench.profiling.records.quality import Metric
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import Work
from accelbench.report.rows import make_rows
from accelbench.report.sections.energy import energies
from tests.fixtures.report_pages import page_of, printed
from tests.fixtures.report_records import gpu_telemetry, record, timing, training
from tests.fixtures.report_runs import make_run


def product(**changes: Any) -> Record:
    counters = {"wall_s": 2.0, "gpu.energy_j": 1200.0}
    fields: dict[str, Any] = {
        "figure": "flops",
        "work": Work(flops=3e12),
        "telemetry": gpu_telemetry(counters=counters),
    }
    return record("matmul", "gpu", **fields | changes)


def test_kernels_and_trainings_have_work_per_joule() -> None:
    trained = training("gpu", "float32", 0.01, metrics={"energy_per_step": Metric(4.0, "J")})
    kernel, step = energies(make_rows([product(), record("stream"), trained]))
    assert (kernel.power, step.power) == ("600 W", "603 W")
    assert kernel.per_joule
    assert kernel.per_joule.unit == "TFLOP/J"
    assert kernel.per_joule.interval
    assert step.per_joule
    assert (step.per_joule.quantity, step.per_joule.interval) == ("32.0 images/J", "")


def test_bounds_and_noise_are_marked() -> None:
    bound = product(timing=timing(1e-3, upper_bound="2 samples were clean"))
    one, other = energies(make_rows([bound, product(noise=["steal: 9 %"])]))
    assert one.per_joule
    assert (one.per_execution.value[:2], one.per_joule.value[:2]) == ("≤ ", "≥ ")
    assert other.per_joule
    assert other.per_joule.value.startswith("~")


def test_the_energy_is_on_the_page_and_on_a_verbose_terminal(tmp_path: Path) -> None:
    assert 'id="energy"' in page_of(tmp_path, [product()])
    assert 'id="energy"' not in page_of(tmp_path / "without", [record("stream")])
    store = make_run(tmp_path / "again", [product()])
    assert "TFLOP/J" in printed(store, verbose=True)
    assert "TFLOP/J" not in printed(store)


def test_the_energy_is_in_the_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = make_run(tmp_path / "run", [product()])
    assert main(["report", str(store.path), "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    (line,) = pd.read_csv(store.path / "records.csv").to_dict("records")
    assert (line["mean_power_w"], line["energy_j"]) == (600.0, pytest.approx(row["energy_j"]))
    assert line["work_per_joule"] == pytest.approx(row["work_per_joule"]) == pytest.approx(3e12 / row["energy_j"])
