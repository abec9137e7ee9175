"""Estimated duration of a plan: ranges by like points, FLOPs and the speed of the machine, and time limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from accelbench.execution.plan import discover, make_plan
from accelbench.execution.store import RunStore, Settings
from accelbench.execution.suite import load_suite
from accelbench.execution.time_left import WallTime
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.records.point import Device, Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.work import Bound, Work
from accelbench.results.forecast import (
    CORE_PEAK,
    FRAMEWORK_OVERHEAD_S,
    OTHER_MODELS,
    SAMPLING_OVERHEAD_S,
    TRAINING_SHARES,
    TrainingSpeed,
    forecast,
    of_machine,
    training_speed,
)
from accelbench.results.training_flops import model_entries, training_flops
from tests.fixtures.made_up_runs import card, machine
from tests.fixtures.report_records import record, timing, training
from tests.fixtures.report_runs import make_run

HERE = machine(4)
SPEED = TrainingSpeed(2e9, 1e11, "a known speed")


def points_of_full(device: Device) -> list[Point]:
    return [point for point in make_plan((), load_suite("full"), device, (), None, 1) if "epochs" in point.values]


def cnn(**values: Any) -> Point:
    (point,) = [point for point in points_of_full("cpu") if point.benchmark == "cnn-mnist"]
    return Point(point.benchmark, "cpu", {**point.params, **values}, point.backend)


def speed_of(folder: Path, *records: Record, device: Device = "cpu", here: Environment = HERE) -> TrainingSpeed:
    make_run(folder / "past", [*records], device=device, environment=here)
    return training_speed(of_machine([RunStore(folder / "past")], here), device, here)


def test_the_table_has_every_training_workload_with_declared_axes() -> None:
    plan = points_of_full("cpu")
    assert {point.benchmark for point in plan} == set(model_entries())
    assert all(training_flops(point) for point in plan)
    for name, entry in model_entries().items():
        axes = {*discover()[name].axes, *discover()[name].optional}
        assert {*entry.at, *filter(None, [entry.examples_axis])} <= axes, name


def test_flops_grow_with_the_epochs_and_are_unknown_for_another_model() -> None:
    assert training_flops(cnn(epochs=24)) == 2 * (training_flops(cnn(epochs=12)) or 0)
    assert training_flops(Point("resnet50", "cpu", {"image": 64, "batch": 8, "epochs": 1}, "jax")) is None


def test_a_new_training_takes_its_flops_at_the_speed_of_the_machine() -> None:
    flops = training_flops(cnn()) or 0.0
    found = forecast([cnn()], Settings(), {}, speed=SPEED)
    least, most = FRAMEWORK_OVERHEAD_S
    assert (found.low_s, found.high_s) == pytest.approx((least + flops / 1e11, most + flops / 2e9))
    assert "a known speed" in found.sentence


def test_an_estimate_is_at_most_the_time_limit() -> None:
    assert forecast([cnn()], Settings(time_limit_s=30), {}, speed=SPEED).high_s == 30
    unknown = Point("resnet50", "cpu", {"image": 64, "batch": 8, "epochs": 1}, "jax")
    assert forecast([unknown], Settings(), {}, speed=SPEED).high_s == discover()["resnet50"].time_limit_s


def test_like_points_are_preferred_to_flops() -> None:
    past = {str(cnn(epochs=2)): WallTime(20.0), str(cnn(epochs=4)): WallTime(30.0)}
    found = forecast([cnn(epochs=3), cnn(epochs=2)], Settings(), past, speed=SPEED)
    assert (found.low_s, found.high_s) == (40.0, 50.0)


def test_a_kernel_is_estimated_by_its_sampling_or_by_other_kernels() -> None:
    kernel = Point("launch", "cpu", {})
    least, most = SAMPLING_OVERHEAD_S
    found = forecast([kernel], Settings(rounds=3, max_seconds=2), {})
    assert (found.low_s, found.high_s) == (3 * least, 3 * (most + 2))
    past = {f"stream cpu n={n}": WallTime(float(n)) for n in range(1, 6)}
    found = forecast([kernel], Settings(rounds=3), past)
    assert (found.low_s, found.high_s) == (1.0, 5.0)


def test_the_speed_is_of_models_then_of_the_ceiling_then_of_the_hardware(tmp_path: Path) -> None:
    ceiling = record(
        "peak-arith", figure="flops", work=Work(flops=1e9), timing=timing(1e-3), ceiling=True,
        bound=Bound("arithmetic", None, "float32"), params={"dtype": "float32", "cores": "all"},
    )  # fmt: skip
    trained = training("cpu", "float32", 0.1, params={"precision": "float32", "batch": 128, "epochs": 3})
    rate = trained.rate("flops") or 0.0
    by_model = speed_of(tmp_path / "a", ceiling, trained)
    assert (by_model.low, by_model.high) == pytest.approx((rate / OTHER_MODELS, rate * OTHER_MODELS))
    by_ceiling = speed_of(tmp_path / "b", ceiling)
    low, high = TRAINING_SHARES
    assert (by_ceiling.low, by_ceiling.high) == pytest.approx((low * 1e12, high * 1e12), rel=0.01)
    by_cores = speed_of(tmp_path / "c")
    assert by_cores.high == pytest.approx(high * 4 * CORE_PEAK)
    by_card = speed_of(tmp_path / "d", device="gpu", here=machine(4, [card()]))
    assert by_card.high > by_cores.high


def test_the_full_suite_has_a_range_on_a_new_machine() -> None:
    plan = make_plan((), load_suite("full"), "cpu", (), None, 1)
    speed = training_speed([], "cpu", HERE)
    found = forecast(plan, Settings(rounds=3, max_seconds=3), {}, speed=speed)
    assert 600 < found.low_s < found.high_s < 10 * 3600
    assert "time limit" not in found.sentence
