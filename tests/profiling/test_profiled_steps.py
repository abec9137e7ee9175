"""The verdict names what holds a training back: trainings that are held back by one known thing each."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from profiling.benchmark import Benchmark
from profiling.host.pyspy import allow_tracing
from profiling.machine.environment.collect import collect
from profiling.measure import measure
from profiling.profiled_steps import Keep, profile_training
from profiling.records.bottleneck import Bottleneck
from profiling.records.point import Point
from profiling.timing.steps import train_until
from profiling.trace import framework_profiler as profiler
from tests.conftest import ROOT
from tests.fixtures.bound_workloads import BATCH, SLEEP_S, large_products, slow_input

pytestmark = pytest.mark.alone

QUOTA_US, PERIOD_US = 50_000, 100_000


def verdict(name: str, backend: str = "tensorflow", **options: Any) -> Bottleneck:
    process = subprocess.run(
        [sys.executable, "-m", "tests.fixtures.bound_workloads", name, backend],
        cwd=ROOT,
        capture_output=True,
        text=True,
        **options,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    return Bottleneck.model_validate_json(process.stdout.splitlines()[-1])


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
@pytest.mark.parametrize(
    ("name", "bound"),
    [
        ("slow-input", "input-bound"),
        ("hungry-input", "input-bound"),
        ("looping-input", "input-bound"),
        ("looping-workers", "input-bound"),
        ("tiny-operations", "dispatch-bound"),
        ("large-products", "device-bound"),
    ],
)
def test_the_verdict_names_what_was_built_in(name: str, bound: str, backend: str) -> None:
    found = verdict(name, backend)
    assert found.bound == bound, found
    assert sum(found.shares.values()) == pytest.approx(1, abs=0.01)
    assert (found.shares_text or "").startswith("trace of ")
    assert found.help


@pytest.fixture
def quota_group() -> Iterator[Path]:
    """A control group that may use half of one CPU."""
    for hierarchy, settings in (
        ("cpu", {"cpu.cfs_period_us": PERIOD_US, "cpu.cfs_quota_us": QUOTA_US}),
        ("", {"cpu.max": f"{QUOTA_US} {PERIOD_US}"}),
    ):
        group = Path("/sys/fs/cgroup", hierarchy, f"accelbench-test-{os.getpid()}")
        try:
            group.mkdir()
            for file, value in settings.items():
                (group / file).write_text(str(value))
        except OSError:
            if group.is_dir():
                group.rmdir()
            continue
        yield group
        group.rmdir()
        return
    pytest.skip("no control group with a CPU quota can be made here")


@pytest.mark.timeout(600)
def test_a_process_stopped_by_its_cpu_quota_is_told_so(quota_group: Path) -> None:
    def join() -> None:
        (quota_group / "cgroup.procs").write_text(str(os.getpid()))

    found = verdict("large-products", preexec_fn=join)
    assert found.bound == "cpu-quota-bound", found
    assert "quota" in (found.quota_text or "")
    assert found.shares["device"] > 0, "what it was stopped in is still shown"


def test_a_profiler_that_does_not_start_leaves_the_verdict_to_py_spy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler, "unwritable", lambda folder: "the trace folder cannot be written: no space left")
    monkeypatch.setattr("profiling.profiled_steps.HOST_S", 9.0)
    allow_tracing()  # as a worker does
    point = Point("large-products", "cpu", {"batch": 32}, "tensorflow", seed=1)
    found = profile_training(large_products(point), point, 0.05)
    assert found.trace is None
    assert found.capture is not None
    assert "no space left" in str(found.capture.reason)
    assert found.bottleneck.bound == "device-bound", found.bottleneck
    assert "no space left" in (found.bottleneck.shares_text or "")


def test_the_sensors_stand_beside_the_curves_over_time(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    point = Point("slow-input", "cpu", {"batch": BATCH}, "tensorflow", seed=1)
    benchmark = Benchmark("slow-input", slow_input, ("cpu",), {"batch": (BATCH,)}, "items", backends=("tensorflow",))
    record = measure(benchmark, point, collect(), 1.0, Keep(run=tmp_path, trace="trace"))
    assert record.profile is not None, record.reason
    assert not [sentence for sentence in record.profile.missing if "scalars" in sentence]
    found = EventAccumulator(str(tmp_path / "trace"))
    found.Reload()
    begin, steps = record.started.timestamp(), found.Scalars("step/time_s")
    for tag in ("telemetry/process.rss", "telemetry/cpu.load"):
        moments = [event.wall_time - begin for event in found.Scalars(tag)]
        assert len(moments) > 3, "more than its least, median and largest value"
        assert moments == sorted(set(moments))
        assert moments[0] < steps[-1].wall_time - begin, "beside the steps"
        assert moments[-1] < record.elapsed_s


def test_a_training_shorter_than_the_window_ends_by_itself() -> None:
    point = Point("slow-input", "cpu", {"batch": 32}, "tensorflow", seed=1)
    training, steps = slow_input(point), list[int]()
    train_until(training.fit, lambda: bool(steps.append(1)))
    assert len(steps) == 60
    train_until(training.fit, lambda: bool(steps.append(1)) or len(steps) >= 65)
    assert len(steps) == 65
    assert SLEEP_S > 0
