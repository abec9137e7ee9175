"""Training is measured by its full, steady steps."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import wraps
from time import perf_counter, sleep
from typing import Any

import keras
import numpy as np
import pytest

from accelbench.profiling.analysis.course import bursts
from accelbench.profiling.benchmark import Training
from accelbench.profiling.measure.training import energy_metrics
from accelbench.profiling.records.quality import Data, Metric, Quality, Verification
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
    # Each epoch's first step is left out: the epoch's turn is in it.
    assert measured.timing.summary.count == epochs * (steps - 1) - WARMUP_STEPS
    assert measured.steps == epochs * steps
    assert measured.timing.stop == "epochs done"
    assert measured.verification.passed
    assert len(measured.curves["loss"]) == len(measured.curves["epoch_s"]) == epochs
    assert measured.metrics["test_quality"].value == 0.5
    assert measured.metrics["parameters"].value == 5


def test_a_training_whose_speed_alone_is_wanted_ends_at_the_first_turn_of_epochs_after_enough_seconds() -> None:
    training = small_training(20 * BATCH, epochs=6, qualities=itertools.repeat(0.7))
    whole, brief = measure_training(training), measure_training(replace(training, target=None), seconds=0.0)
    assert len(whole.curves["loss"]) == 6
    assert (len(brief.curves["loss"]), brief.timing.stop) == (2, "time limit")
    assert brief.verification.passed
    speed_alone = whole.metrics.keys() - {"test_quality", "training", "target_test_quality", "time_to_target"}
    assert brief.metrics.keys() == speed_alone


@pytest.mark.parametrize(("enough", "seconds"), [(None, 0.0), (5, 0.0), (6, 0.0), (2, 1e9)])
def test_a_training_is_not_cut_before_its_verification_and_its_speed_have_enough(
    enough: int | None, seconds: float
) -> None:
    training = replace(small_training(20 * BATCH, epochs=5), enough_epochs=enough)
    measured = measure_training(training, seconds=seconds)
    assert (len(measured.curves["loss"]), measured.timing.stop) == (5, "epochs done")
    assert "test_quality" in measured.metrics


def test_the_quality_is_followed_to_its_target_and_its_time_is_not_training_time() -> None:
    measured = measure_training(small_training(20 * BATCH, epochs=3, qualities=iter([0.5, 0.7, 0.6, 0.6])))
    assert measured.curves["val_quality"] == [0.5, 0.7, 0.6]
    assert measured.metrics["test_quality"].value == 0.6, "not that of the last epoch"
    two = sum(measured.curves["epoch_s"][:2])
    assert two <= measured.metrics["time_to_target"].value < measured.metrics["training"].value, "with the turn between"
    assert measured.metrics["target_test_quality"].value == 0.7


def test_a_quality_that_is_better_the_lower_reaches_its_target_from_above() -> None:
    training = small_training(20 * BATCH, epochs=3, qualities=iter([0.9, 0.7, 0.8, 0.8]))
    falling = tuple(replace(quality, better="lower") for quality in training.qualities)
    measured = measure_training(replace(training, qualities=falling))
    first, two = measured.curves["epoch_s"][0], sum(measured.curves["epoch_s"][:2])
    assert first < two <= measured.metrics["time_to_target"].value


def test_a_target_that_was_not_reached_has_no_time() -> None:
    measured = measure_training(small_training(20 * BATCH, epochs=2, qualities=iter([0.5, 0.6, 0.6])))
    assert "time_to_target" not in measured.metrics


def test_a_loss_that_is_no_number_ends_the_training_at_that_step() -> None:
    with pytest.raises(ArithmeticError, match=r"the loss became (nan|inf) in step \d+ of epoch 1"):
        measure_training(small_training(20 * BATCH, epochs=2, rate=1e30))


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
    with pytest.raises(ValueError, match="1 steps an epoch are too few"):
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


def test_warm_up_goes_on_over_short_epochs() -> None:
    clock = StepClock()
    ends = [[10, 20, 30, 40], [50, 60, 71, 80], [90, 102, 115, 130]]
    clock.epochs = [Epoch(0, [end * 1_000_000 for end in epoch]) for epoch in ends]
    assert WARMUP_STEPS == 5  # the steps at 20 … 60 after the first one at 10; that at 50 has the epoch's turn in it
    assert clock.warmup == pytest.approx(0.040)
    assert clock.samples() == pytest.approx([0.011, 0.009, 0.012, 0.013, 0.015])


def test_steady_time_holds_the_turns_of_epochs_and_no_compilation() -> None:
    clock = StepClock()
    ends = [[100, 110, 120, 130, 140, 150, 160], [190, 200], [400, 410]]
    clock.epochs = [Epoch(0, [end * 1_000_000 for end in epoch]) for epoch in ends]
    assert clock.steady() == [pytest.approx([0.010]), pytest.approx([0.030, 0.010]), pytest.approx([0.200, 0.010])]
    clock.epochs[2].starts_fit = True  # from 200 to 400 another model was built, and compiled in its first step
    assert clock.steady() == [pytest.approx([0.010]), pytest.approx([0.030, 0.010]), pytest.approx([0.010])]


def test_the_first_step_of_a_further_fit_is_not_steady() -> None:
    clock, training = StepClock(), small_training(samples=10 * BATCH, epochs=2)
    training.fit([clock.callback()])
    training.fit([clock.callback()])
    assert [len(epoch) for epoch in clock.steady()] == [9 - WARMUP_STEPS, 10, 9, 10]


@pytest.mark.slow
def test_the_clock_stands_still_while_the_suite_evaluates_and_runs_while_a_callback_of_the_workload_does() -> None:
    def steady_s(ours: float, theirs: float) -> float:
        training = small_training(samples=10 * BATCH, epochs=4, qualities=iter([0.0] * 9))

        def evaluate() -> dict[str, Metric]:
            sleep(ours)
            return {"test_quality": Metric(0.0)}

        def fit(callbacks: list[Any]) -> Mapping[str, list[float]]:
            return training.fit([*callbacks, keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: sleep(theirs))])

        steady = measure_training(replace(training, evaluate=evaluate, fit=fit)).timing.steady
        assert steady is not None
        assert steady.steps == 4 * 10 - 1 - WARMUP_STEPS
        return steady.seconds

    nap = 0.5
    assert steady_s(0.0, nap) > 3 * nap, "time of the workload's own callbacks is training time"
    assert steady_s(nap, 0.0) < 3 * nap, "time of the suite's evaluation is not"


@pytest.mark.slow
def test_input_in_bursts_is_rated_by_the_wall_clock_and_not_by_its_median_step() -> None:
    steps, burst, wait = 66, 20, 1.0
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
    assert measured.timing.summary.median < outside / 2, "the input did not come in bursts, and nothing was shown"
    assert bursts(measured.timing)


def test_jitter_is_not_blown_up_by_one_slow_step() -> None:
    assert median_absolute_deviation([1.0, 1.0, 1.0, 1.0, 100.0]) == 0
    assert median_absolute_deviation([1.0, 2.0, 3.0, 4.0, 5.0]) == 1


def test_the_energy_of_a_training_is_per_step_and_per_thousand_items() -> None:
    found = energy_metrics(600.0, 30, Work(items=128, item="images"))
    assert {name: (metric.value, metric.unit) for name, metric in found.items()} == {
        "energy_per_step": (20.0, "J"),
        "energy_per_1000_images": (156.25, "J"),
    }
    assert list(energy_metrics(600.0, 30, Work())) == ["energy_per_step"]
    assert energy_metrics(None, 30, Work(items=128)) == {}


def test_whoever_looks_sees_the_epoch_and_the_step_of_all_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = Page.shared()
    monkeypatch.setattr("accelbench.profiling.timing.position._PAGE", [Page(looked.descriptor)])
    once = small_training(samples=8 * BATCH, epochs=2)

    def fit(callbacks: list[Any]) -> Mapping[str, list[float]]:
        once.fit(callbacks)
        return once.fit(callbacks)

    seen: list[Position | None] = []

    class Look(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_begin(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
            seen.append(looked.read())

    measure_training(replace(once, fit=fit, data=replace(once.data, trainings=2)), Look())
    assert seen == [Position(epoch, 4, step, 8) for epoch in (1, 2, 3, 4) for step in range(8)]
    assert looked.read() is None, "the training is over"
    looked.close()
