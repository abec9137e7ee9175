"""The bottleneck of training workloads, each with one built-in bottleneck."""

from __future__ import annotations

import os
from pathlib import Path
from statistics import median

import pytest

from accelbench.profiling.benchmark import Benchmark
from accelbench.profiling.host.pyspy import allow_tracing
from accelbench.profiling.machine.environment.collect import collect
from accelbench.profiling.measure.point import measure
from accelbench.profiling.measure.profiled_steps import (
    FEWEST_SAMPLES,
    KeptFolders,
    profile_training,
    steps_from_memory,
)
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.timing import Timing
from accelbench.profiling.timing.statistics import summarize
from accelbench.profiling.timing.steps import train_until
from accelbench.profiling.trace import framework_profiler as profiler
from tests.fixtures.bound_workloads import BATCH, SLEEP_S, large_products, slow_input
from tests.fixtures.verdict_cases import CASES, Case, Impossible, unchanged, verdict
from tests.requirements import not_tested

CHECKED = {
    "slow-input",
    "hungry-input",
    "looping-input",
    "looping-workers",
    "waiting-at-begin",
    "held-lock",
    "tiny-operations",
    "large-products",
}
"""The workloads tested here, without changes of the environment; `make bench-self PART=verdicts` tests all."""
FURTHER = {"hungry-input", "waiting-at-begin"}
"""The workloads that CI leaves out, because `looping-input` and `held-lock` have similar bottlenecks."""
JUDGED = [
    pytest.param(case, id=case.workload, marks=[pytest.mark.exhaustive] if case.workload in FURTHER else [])
    for case in CASES
    if case.workload in CHECKED and case.environment is unchanged
]
THROTTLED = "a quota of a parent group"


@pytest.mark.alone
@pytest.mark.parametrize("backend", ["tensorflow", pytest.param("jax", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("case", JUDGED)
def test_the_verdict_is_the_built_in_bottleneck(case: Case, backend: str) -> None:
    found = verdict(case, backend)
    assert found.bound in case.right, found
    assert sum(found.shares.values()) == pytest.approx(1, abs=0.01)
    assert (found.shares_text or "").startswith("trace of ")
    assert found.confirmed is (True if case.right == ("input-bound",) else None), found
    assert found.intervals[max(found.shares, key=lambda cause: found.shares[cause])]
    assert found.help


@pytest.mark.alone
@pytest.mark.needs("torch")
def test_a_trace_of_pytorch_contains_the_input_threads() -> None:
    (case,) = (case for case in CASES if case.workload == "looping-workers")
    found = verdict(case, "torch")
    assert found.bound == "input-bound", found


@pytest.mark.alone
@pytest.mark.needs("cpu-quota")
@pytest.mark.timeout(600)
def test_a_process_throttled_by_its_cpu_quota_is_quota_bound() -> None:
    (case,) = (case for case in CASES if case.name == THROTTLED)
    try:
        found = verdict(case, "tensorflow")
    except Impossible as reason:
        not_tested("cpu-quota", str(reason))
    assert found.bound == "cpu-quota-bound", found
    assert "quota" in (found.quota_text or "")
    assert found.shares["device"] > 0


@pytest.mark.alone
def test_without_the_frameworks_profiler_the_verdict_is_from_py_spy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler, "unwritable", lambda folder: "no space left")
    monkeypatch.setattr("accelbench.profiling.measure.profiled_steps.HOST_S", 9.0)
    allow_tracing(os.getpid())  # as a worker does
    point = Point("large-products", "cpu", {"batch": 32}, "tensorflow", seed=1)
    samples = [0.05] * 20
    timing = Timing(samples=samples, stop="epochs done", timer="steps", summary=summarize(samples))
    found = profile_training(large_products(point), point, timing)
    assert found.trace is None
    assert found.capture is not None
    assert "no space left" in str(found.capture.reason)
    assert found.bottleneck.bound == "device-bound", found.bottleneck
    assert "no space left" in (found.bottleneck.shares_text or "")


@pytest.mark.slow
def test_without_input_a_step_takes_the_time_of_its_computation() -> None:
    point = Point("slow-input", "cpu", {"batch": BATCH}, "tensorflow", seed=1)
    seconds = steps_from_memory(slow_input(point), SLEEP_S)
    assert len(seconds) >= FEWEST_SAMPLES
    assert median(seconds) < SLEEP_S / 2


@pytest.mark.slow
def test_sensor_readings_are_stored_as_scalars(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    point = Point("slow-input", "cpu", {"batch": BATCH}, "tensorflow", seed=1)
    benchmark = Benchmark("slow-input", slow_input, ("cpu",), {"batch": (BATCH,)}, "items", backends=("tensorflow",))
    record = measure(benchmark, point, collect(), 1.0, KeptFolders(run=tmp_path, trace="trace"))
    assert record.profile is not None, record.reason
    assert not [reason for reason in record.profile.missing if "scalars" in reason]
    found = EventAccumulator(str(tmp_path / "trace"))
    found.Reload()
    begin, steps = record.started.timestamp(), found.Scalars("step/time_s")
    for tag in ("telemetry/process.rss", "telemetry/cpu.load"):
        moments = [event.wall_time - begin for event in found.Scalars(tag)]
        assert len(moments) > 3, "not the minimum, median and maximum only"
        assert moments == sorted(set(moments))
        assert moments[0] < steps[-1].wall_time - begin, "during the steps"
        assert moments[-1] < record.elapsed_s


@pytest.mark.slow
def test_train_until_ends_at_the_condition_or_with_the_training() -> None:
    point = Point("slow-input", "cpu", {"batch": 32}, "tensorflow", seed=1)
    training, steps = slow_input(point), list[int]()
    train_until(training.fit, lambda: bool(steps.append(1)))
    assert len(steps) == 60
    train_until(training.fit, lambda: bool(steps.append(1)) or len(steps) >= 65)
    assert len(steps) == 65
    assert SLEEP_S > 0
