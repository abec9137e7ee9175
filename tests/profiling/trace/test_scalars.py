"""Tests of TensorBoard scalars, written without TensorFlow."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.telemetry import Gauge, Telemetry
from accelbench.profiling.records.timing import Phases, Timing
from accelbench.profiling.records.work import Work
from accelbench.profiling.timing.statistics import summarize
from accelbench.profiling.trace.scalars import record_scalars, write_scalars
from tests.conftest import ROOT

SAMPLES = [0.1, 0.2, 0.1]
RECORD = Record(
    point=Point("cnn", "gpu", {}),
    figure="items",
    status="measured",
    started=datetime(2026, 3, 14, tzinfo=UTC),
    elapsed_s=12.0,
    phases=Phases(prepare_s=1.0, first_call_s=2.0, warmup_s=0.5),
    work=Work(items=64, item="images"),
    timing=Timing(samples=SAMPLES, stop="epochs done", timer="steps", summary=summarize(SAMPLES)),
    curves={"loss": [2.0, 1.0], "epoch_s": [4.0, 3.0]},
    telemetry=Telemetry(
        interval_s=0.5, gauges={"gpu.power": Gauge(minimum=90, median=200, maximum=300, unit="W")}, counters={}
    ),
)


def read_back(folder: Path) -> dict[str, list[tuple[int, float, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return {tag: [(e.step, e.wall_time, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_tensorboard_reads_the_written_scalars(tmp_path: Path) -> None:
    write_scalars(tmp_path, record_scalars(RECORD), RECORD.started.timestamp())
    found = read_back(tmp_path)
    begin = RECORD.started.timestamp()
    assert found["epoch/loss"] == [(1, begin + 5, 2.0), (2, begin + 8, 1.0)]
    assert [value for _, _, value in found["step/time_s"]] == pytest.approx(SAMPLES)
    assert [value for _, _, value in found["step/images_per_s"]] == pytest.approx([640, 320, 640])
    assert [value for _, _, value in found["telemetry/gpu.power"]] == [90, 200, 300]


def test_a_sensors_readings_replace_its_summary(tmp_path: Path) -> None:
    series = record_scalars(RECORD, {"gpu.sm_clock": [(0.5, 1500.0), (1.0, 1980.0)]})
    assert [(p.seconds, p.value) for p in series["telemetry/gpu.sm_clock"]] == [(0.5, 1500.0), (1.0, 1980.0)]
    assert "telemetry/gpu.power" not in series


def test_no_framework_is_imported(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path;"
        "from accelbench.profiling.trace.scalars import ScalarPoint, write_scalars;"
        "write_scalars(Path(sys.argv[1]), {'a/b': [ScalarPoint(1, 0.0, 2.0)]}, 1.7e9);"
        "assert not {'tensorflow', 'jax', 'keras', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, cwd=ROOT)
    assert read_back(tmp_path)["a/b"][0][2] == 2.0


def test_reading_a_trace_imports_no_framework() -> None:
    script = (
        "import sys; from accelbench.profiling.trace import analysis, capture, scalars, xplane;"
        "assert not {'tensorflow', 'jax', 'keras', 'tensorboard', 'xprof', 'google.protobuf'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)


def test_an_unwritable_folder_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(OSError, match="taken"):
        write_scalars(tmp_path / "taken", {}, 0.0)
