"""Training is measured by its full, steady steps."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import wraps
from typing import Any

import keras
import numpy as np
import pytest

from profiling.benchmark import Metric, Training, Verification, Work
from profiling.training import WARMUP_STEPS, StepClock, measure_training, median_absolute_deviation

BATCH = 8


def small_training(samples: int, epochs: int) -> Training:
    generator = np.random.default_rng(1)
    x = generator.normal(size=(samples, 4)).astype("float32")
    y = x.sum(axis=1, keepdims=True)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")

    def fit(callbacks: list[Any]) -> Mapping[str, list[float]]:
        history: Mapping[str, list[float]] = model.fit(
            x, y, batch_size=BATCH, epochs=epochs, callbacks=callbacks, verbose=0
        ).history
        return history

    return Training(
        fit=fit,
        evaluate=lambda: {"quality": Metric(0.5)},
        verify=lambda history, metrics: Verification(history["loss"][-1] < history["loss"][0], "falling loss"),
        work=Work(items=BATCH, item="rows"),
    )


def test_full_steady_steps_are_the_samples() -> None:
    full, epochs = 12, 3
    measured = measure_training(small_training(samples=full * BATCH + 1, epochs=epochs))
    # Each epoch has one more, partial step. It is left out, and so is each epoch's first step.
    assert measured.timing.summary.count == epochs * (full - 1) - WARMUP_STEPS
    assert measured.timing.stop == "epochs done"
    assert measured.verification.passed
    assert len(measured.curves["loss"]) == len(measured.curves["epoch_s"]) == epochs
    assert measured.metrics["quality"].value == 0.5


def test_the_first_step_is_a_figure_of_its_own_and_no_sample() -> None:
    measured = measure_training(small_training(samples=20 * BATCH, epochs=2))
    first = measured.metrics["first_step"].value
    assert first > measured.timing.summary.maximum, "compilation is in the samples"
    assert measured.phases["first_call_s"] == first
    assert min(measured.phases.values()) >= 0


def test_the_phases_and_the_epochs_account_for_the_whole_training() -> None:
    measured = measure_training(small_training(samples=20 * BATCH, epochs=3))
    training = measured.metrics["training"].value
    assert sum(measured.phases[name] for name in ("first_call_s", "warmup_s", "measure_s")) == pytest.approx(training)
    assert sum(measured.timing.samples) < sum(measured.curves["epoch_s"]) <= training
    assert measured.metrics["epoch"].value == pytest.approx(np.median(measured.curves["epoch_s"][1:]))


def test_a_step_ends_when_its_loss_is_a_number_in_the_training_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    callback = StepClock().callback()
    seen = []
    timed = type(callback).on_train_batch_end

    @wraps(timed)  # with Keras's own mark of a method that nobody overrode, by which it calls asynchronously
    def spy(self: Any, batch: int, logs: Mapping[str, float]) -> None:
        seen.append((type(logs["loss"]), threading.current_thread()))
        timed(self, batch, logs)

    monkeypatch.setattr(type(callback), "on_train_batch_end", spy)
    small_training(samples=3 * BATCH, epochs=2).fit([callback])
    assert seen == [(float, threading.main_thread())] * 6


def test_an_epoch_too_short_to_hold_a_sample_is_an_error() -> None:
    with pytest.raises(ValueError, match="2 steps an epoch are too few"):
        measure_training(small_training(samples=2 * BATCH, epochs=1))


def test_samples_are_the_differences_of_step_ends_within_an_epoch() -> None:
    clock = StepClock()
    clock.train_begin = 0
    millisecond = 1_000_000
    first = [100, 110, 120, 130, 140, 150, 160, 171, 199]
    second = [300, 312, 325, 390]
    clock.epochs = [[end * millisecond for end in first], [end * millisecond for end in second]]
    assert clock.first_step == pytest.approx(0.100)
    assert clock.warmup == pytest.approx(0.050)
    assert clock.samples() == pytest.approx([0.010, 0.011, 0.012, 0.013])
    assert clock.epoch_seconds() == pytest.approx([0.199, 0.191])


def test_warm_up_goes_on_over_short_epochs() -> None:
    clock = StepClock()
    clock.epochs = [[10, 20, 30, 40], [50, 60, 71, 80], [90, 102, 115, 130]]
    clock.epochs = [[end * 1_000_000 for end in ends] for ends in clock.epochs]
    assert WARMUP_STEPS == 5  # the steps at 20 … 60 after the first one at 10
    assert clock.warmup == pytest.approx(0.050)
    assert clock.samples() == pytest.approx([0.011, 0.012, 0.013])


def test_jitter_is_not_blown_up_by_one_slow_step() -> None:
    assert median_absolute_deviation([1.0, 1.0, 1.0, 1.0, 100.0]) == 0
    assert median_absolute_deviation([1.0, 2.0, 3.0, 4.0, 5.0]) == 1
