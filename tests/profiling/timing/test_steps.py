"""Timing of training workloads by their steps."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from statistics import median
from time import perf_counter, sleep
from typing import Any

import keras
import numpy as np
import pytest

from accelbench.profiling.analysis.course import bursts
from accelbench.profiling.benchmark import Training
from accelbench.profiling.measure.training import energy_metrics
from accelbench.profiling.records.quality import ConfusionMatrix, Data, Metric, Quality, Verification
from accelbench.profiling.records.work import Work
from accelbench.profiling.timing.position import Page, Position
from accelbench.profiling.timing.steps import (
    WARMUP_STEPS,
    Epoch,
    StepClock,
    measure_training,
    median_absolute_deviation,
)

BATCH = 8


def small_training(samples: int, epochs: int, rate: float = 0.01, qualities: Iterator[float] | None = None) -> Training:
    generator = np.random.default_rng(1)
    x = generator.normal(size=(samples, 4)).astype("float32")
    y = x.sum(axis=1, keepdims=True)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(rate), "mse")

    def fit(callbacks: list[Any]) -> Mapping[str, list[float]]:
        history: Mapping[str, list[float]] = model.fit(
            x, y, batch_size=BATCH, epochs=epochs, callbacks=callbacks, verbose=0
        ).history
        return history

    return Training(
        fit=fit,
        evaluate=lambda: {"test_quality": Metric(next(qualities) if qualities else 0.5)},
        verify=lambda history, metrics: Verification(history["loss"][-1] < history["loss"][0], "falling loss"),
        work=Work(items=BATCH, item="rows"),
        data=Data("random rows", samples, 0, synthetic=True),
        model=model,
        target=("test_quality", 0.7) if qualities else None,
        qualities=(Quality("test_quality", headline=True),),
    )


def test_steady_steps_are_the_samples() -> None:
    steps, epochs = 12, 3
    measured = measure_training(small_training(samples=steps * BATCH, epochs=epochs))
    # The first step of each epoch is excluded, since it includes the epoch boundary.
    assert measured.timing.summary.count == epochs * (steps - 1) - WARMUP_STEPS
    assert measured.steps == epochs * steps
    assert measured.timing.stop == "epochs done"
    assert measured.verification.passed
    assert len(measured.curves["loss"]) == len(measured.curves["epoch_s"]) == epochs
    assert measured.metrics["test_quality"].value == 0.5
    assert measured.metrics["parameters"].value == 5


def test_a_speed_measurement_ends_at_the_first_epoch_boundary_after_the_given_seconds() -> None:
    training = small_training(20 * BATCH, epochs=6, qualities=itertools.repeat(0.7))
    whole, brief = measure_training(training), measure_training(replace(training, target=None), seconds=0.0)
    assert len(whole.curves["loss"]) == 6
    assert (len(brief.curves["loss"]), brief.timing.stop) == (2, "time limit")
    assert brief.verification.passed
    speed_alone = whole.metrics.keys() - {"test_quality", "training", "target_test_quality", "time_to_target"}
    assert brief.metrics.keys() == speed_alone


@pytest.mark.parametrize(("enough", "seconds"), [(None, 0.0), (5, 0.0), (6, 0.0), (2, 1e9)])
def test_a_speed_measurement_does_not_end_before_the_required_epochs_and_seconds(
    enough: int | None, seconds: float
) -> None:
    training = replace(small_training(20 * BATCH, epochs=5), enough_epochs=enough)
    measured = measure_training(training, seconds=seconds)
    assert (len(measured.curves["loss"]), measured.timing.stop) == (5, "epochs done")
    assert "test_quality" in measured.metrics


def test_the_quality_is_evaluated_after_each_epoch_outside_the_training_time() -> None:
    measured = measure_training(small_training(20 * BATCH, epochs=3, qualities=iter([0.5, 0.7, 0.6, 0.6])))
    assert measured.curves["val_quality"] == [0.5, 0.7, 0.6]
    assert measured.metrics["test_quality"].value == 0.6, "the final evaluation"
    two = sum(measured.curves["epoch_s"][:2])
    assert two <= measured.metrics["time_to_target"].value < measured.metrics["training"].value, (
        "epoch boundary included"
    )
    assert measured.metrics["target_test_quality"].value == 0.7


def test_qualities_on_training_data_are_evaluated_after_each_epoch_while_the_clock_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    evaluations, stopped, stop = itertools.count(), [False], StepClock.stop

    @contextmanager
    def noted(clock: StepClock) -> Iterator[None]:
        with stop(clock):
            stopped.append(True)
            yield
            stopped.pop()

    monkeypatch.setattr(StepClock, "stop", noted)

    def evaluate() -> Mapping[str, float]:
        assert stopped[-1]
        return {"f1": float(next(evaluations))}

    matrix = ConfusionMatrix(classes=("a",), counts=((3,),))
    training = replace(
        small_training(20 * BATCH, epochs=3), evaluate_training=evaluate, confusion=lambda: matrix, enough_epochs=2
    )
    measured = measure_training(training)
    assert measured.curves["f1"] == [0, 1, 2]
    assert measured.curves["val_quality"] == [0.5] * 3
    assert measured.confusion == matrix
    brief = measure_training(training, seconds=0.0)
    assert (brief.curves.get("f1"), brief.confusion) == (None, None)
    assert next(evaluations) == 3, "a measurement of the speed evaluates no training data"


def test_a_lower_is_better_quality_reaches_its_target_from_above() -> None:
    training = small_training(20 * BATCH, epochs=3, qualities=iter([0.9, 0.7, 0.8, 0.8]))
    falling = tuple(replace(quality, better="lower") for quality in training.qualities)
    measured = measure_training(replace(training, qualities=falling))
    first, two = measured.curves["epoch_s"][0], sum(measured.curves["epoch_s"][:2])
    assert first < two <= measured.metrics["time_to_target"].value


def test_no_time_to_target_if_the_target_is_not_reached() -> None:
    measured = measure_training(small_training(20 * BATCH, epochs=2, qualities=iter([0.5, 0.6, 0.6])))
    assert "time_to_target" not in measured.metrics


def test_a_loss_that_is_not_finite_ends_the_training() -> None:
    with pytest.raises(ArithmeticError, match=r"loss .*(nan|inf) .*step \d+ of epoch 1$"):
        measure_training(small_training(20 * BATCH, epochs=2, rate=1e30))


def test_the_first_step_is_a_separate_metric_and_not_a_sample() -> None:
    measured = measure_training(small_training(samples=20 * BATCH, epochs=2))
    first = measured.metrics["first_step"].value
    assert first > median(measured.timing.samples), "the samples include compilation"
    assert measured.phases["first_call_s"] == first
    assert min(measured.phases.values()) >= 0


def test_the_phases_add_up_to_the_training_time() -> None:
    measured = measure_training(small_training(samples=20 * BATCH, epochs=3))
    training = measured.metrics["training"].value
    assert sum(measured.phases[name] for name in ("first_call_s", "warmup_s", "measure_s")) == pytest.approx(training)
    assert sum(measured.timing.samples) < sum(measured.curves["epoch_s"]) <= training
    assert measured.metrics["epoch"].value == pytest.approx(np.median(measured.curves["epoch_s"][1:]))


def test_a_step_ends_when_its_loss_is_a_number_in_the_training_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    callback = StepClock().callback()
    seen = []
    timed = type(callback).on_train_batch_end

    @wraps(timed)  # keeps the attribute by which Keras detects a method that is not overridden, and calls it async
    def spy(self: Any, batch: int, logs: Mapping[str, float]) -> None:
        seen.append((type(logs["loss"]), threading.current_thread()))
        timed(self, batch, logs)

    monkeypatch.setattr(type(callback), "on_train_batch_end", spy)
    small_training(samples=3 * BATCH, epochs=2).fit([callback])
    assert seen == [(float, threading.main_thread())] * 6


def test_an_epoch_too_short_for_a_sample_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"per epoch .*: 1;"):
        measure_training(small_training(samples=BATCH, epochs=1))


def test_samples_are_the_differences_of_step_ends_within_an_epoch() -> None:
    clock = StepClock()
    clock.train_begin = 0
    millisecond = 1_000_000
    first = [100, 110, 120, 130, 140, 150, 160, 171, 199]
    second = [300, 312, 325, 390]
    clock.epochs = [Epoch(0, [end * millisecond for end in first])]
    clock.epochs += [Epoch(250 * millisecond, [end * millisecond for end in second])]
    assert clock.first_step == pytest.approx(0.100)
    assert clock.warmup == pytest.approx(0.050)
    assert clock.samples() == pytest.approx([0.010, 0.011, 0.028, 0.012, 0.013, 0.065])
    assert [epoch.seconds for epoch in clock.epochs] == pytest.approx([0.199, 0.140])


def test_the_warm_up_spans_short_epochs() -> None:
    clock = StepClock()
    ends = [[10, 20, 30, 40], [50, 60, 71, 80], [90, 102, 115, 130]]
    clock.epochs = [Epoch(0, [end * 1_000_000 for end in epoch]) for epoch in ends]
    assert WARMUP_STEPS == 5  # the steps at 20 … 60, after the first step at 10; the one at 50 has the epoch boundary
    assert clock.warmup == pytest.approx(0.040)
    assert clock.samples() == pytest.approx([0.011, 0.009, 0.012, 0.013, 0.015])


def test_steady_time_includes_epoch_boundaries_and_no_compilation() -> None:
    clock = StepClock()
    ends = [[100, 110, 120, 130, 140, 150, 160], [190, 200], [400, 410]]
    clock.epochs = [Epoch(0, [end * 1_000_000 for end in epoch]) for epoch in ends]
    assert clock.steady() == [pytest.approx([0.010]), pytest.approx([0.030, 0.010]), pytest.approx([0.200, 0.010])]
    clock.epochs[2].starts_fit = True  # from 200 to 400 another model is built, and compiled in its first step
    assert clock.steady() == [pytest.approx([0.010]), pytest.approx([0.030, 0.010]), pytest.approx([0.010])]


def test_the_first_step_of_a_further_fit_is_not_steady() -> None:
    clock, training = StepClock(), small_training(samples=10 * BATCH, epochs=2)
    training.fit([clock.callback()])
    training.fit([clock.callback()])
    assert [len(epoch) for epoch in clock.steady()] == [9 - WARMUP_STEPS, 10, 9, 10]


@pytest.mark.slow
def test_the_clock_is_stopped_during_evaluations_and_not_during_callbacks_of_the_workload(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0

    def take(seconds: float) -> None:
        nonlocal now
        now += round(seconds * 1e9)

    def read() -> int:
        take(1e-3)
        return now

    monkeypatch.setattr("accelbench.profiling.timing.steps.perf_counter_ns", read)

    def steady_s(evaluation_s: float, callback_s: float) -> float:
        training = small_training(samples=10 * BATCH, epochs=4, qualities=iter([0.0] * 9))

        def evaluate() -> dict[str, Metric]:
            take(evaluation_s)
            return {"test_quality": Metric(0.0)}

        def fit(callbacks: list[Any]) -> Mapping[str, list[float]]:
            return training.fit([*callbacks, keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: take(callback_s))])

        steady = measure_training(replace(training, evaluate=evaluate, fit=fit)).timing.steady
        assert steady is not None
        assert steady.steps == 4 * 10 - 1 - WARMUP_STEPS
        return steady.seconds

    nap = 0.5
    assert steady_s(0.0, nap) > 3 * nap, "callbacks of the workload are training time"
    assert steady_s(nap, 0.0) < 3 * nap, "evaluation is not training time"


@pytest.mark.slow
def test_the_rate_with_input_in_bursts_follows_from_the_total_time() -> None:
    steps, burst, wait = 66, 20, 2.0
    ends: list[float] = []
    plain = small_training(samples=BATCH, epochs=1)

    def batches() -> Iterator[tuple[Any, Any]]:
        for number in itertools.count():
            if number % burst == 0:
                sleep(wait)
            yield np.ones((BATCH, 4), "float32"), np.ones((BATCH, 1), "float32")

    def fit(callbacks: list[Any]) -> Mapping[str, list[float]]:
        wall = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: ends.append(perf_counter()))
        return plain.model.fit(  # type: ignore[no-any-return]
            batches(), steps_per_epoch=steps, shuffle=False, verbose=0, callbacks=[*callbacks, wall]
        ).history

    measured = measure_training(replace(plain, fit=fit, verify=lambda *_: Verification(passed=True, method="none")))
    steady, outside = measured.timing.steady, (ends[-1] - ends[WARMUP_STEPS]) / (steps - 1 - WARMUP_STEPS)
    assert steady is not None
    assert steady.mean == pytest.approx(outside, rel=0.05)
    assert measured.timing.summary.median < outside / 2, "the input has no bursts: the test shows nothing"
    assert bursts(measured.timing)


def test_the_median_absolute_deviation_is_robust_to_one_slow_step() -> None:
    assert median_absolute_deviation([1.0, 1.0, 1.0, 1.0, 100.0]) == 0
    assert median_absolute_deviation([1.0, 2.0, 3.0, 4.0, 5.0]) == 1


def test_energy_is_per_step_and_per_1000_items() -> None:
    found = energy_metrics(600.0, 30, Work(items=128, item="images"))
    assert {name: (metric.value, metric.unit) for name, metric in found.items()} == {
        "energy_per_step": (20.0, "J"),
        "energy_per_1000_images": (156.25, "J"),
    }
    assert list(energy_metrics(600.0, 30, Work())) == ["energy_per_step"]
    assert energy_metrics(None, 30, Work(items=128)) == {}


def test_the_shared_page_has_epoch_and_step_over_all_training_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = Page.shared()
    monkeypatch.setattr("accelbench.profiling.timing.position._PAGE", [Page(shared.descriptor)])
    once = small_training(samples=8 * BATCH, epochs=2)

    def fit(callbacks: list[Any]) -> Mapping[str, list[float]]:
        once.fit(callbacks)
        return once.fit(callbacks)

    seen: list[Position | None] = []

    class ReadPage(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_begin(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
            seen.append(shared.read())

    measure_training(replace(once, fit=fit, data=replace(once.data, trainings=2)), ReadPage())
    assert seen == [Position(epoch, 4, step, 8) for epoch in (1, 2, 3, 4) for step in range(8)]
    assert shared.read() is None, "the training has ended"
    shared.close()
