"""Training is measured by its steps: every one timed inside an ordinary Keras `fit`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter, perf_counter_ns
from typing import Any

import numpy as np

from profiling.benchmark import Metric, Training, Verification
from profiling.record import Timing
from profiling.statistics import summarize

WARMUP_STEPS = 5
"""Steps after the first that are not samples: allocators, caches and autotuning settle."""


@dataclass(frozen=True)
class TrainingMeasurement:
    """What one training run showed."""

    timing: Timing
    metrics: dict[str, Metric]
    curves: dict[str, list[float]]
    verification: Verification
    phases: dict[str, float]
    """Seconds, by the field names of `profiling.record.Phases`."""


class StepClock:
    """The end of every training step, on the host clock.

    A callback of one's own that overrides `on_train_batch_end` makes Keras call it in the training thread, after each
    step, with the loss as a Python number (keras/src/callbacks/callback_list.py: `_configure_async_dispatch` and
    `pythonify_logs`, on every backend). To have the number Keras must wait for the device: that is the one
    synchronisation that a sample needs, and the clock adds no other.
    """

    def __init__(self) -> None:
        self.train_begin = 0
        self.epochs: list[list[int]] = []
        """Nanoseconds at the end of each step, epoch by epoch."""

    def callback(self) -> Any:
        """A Keras callback that drives this clock."""
        import keras

        clock = self

        class Callback(keras.callbacks.Callback):  # type: ignore[misc]
            def on_train_begin(self, logs: Mapping[str, float] | None = None) -> None:
                clock.train_begin = perf_counter_ns()

            def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
                clock.epochs.append([])

            def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
                clock.epochs[-1].append(perf_counter_ns())

        return Callback()

    @property
    def first_step(self) -> float:
        """Seconds from the start of training to the end of the first step: tracing and compilation."""
        return (self.epochs[0][0] - self.train_begin) * 1e-9

    @property
    def warmup(self) -> float:
        """Seconds from the end of the first step to the end of the last one that is warm-up."""
        ends = [end for epoch in self.epochs for end in epoch]
        return (ends[min(WARMUP_STEPS, len(ends) - 1)] - ends[0]) * 1e-9

    def samples(self) -> list[float]:
        """Seconds per step, input and callbacks included.

        Left out: the first step and the warm-up after it; each epoch's first step, which has the epoch's turn in
        it; and each epoch's last step, which may be a smaller batch and is then compiled anew.
        """
        seconds, before = [], 0
        for ends in self.epochs:
            first = max(1, 1 + WARMUP_STEPS - before)
            seconds += [(ends[step] - ends[step - 1]) * 1e-9 for step in range(first, len(ends) - 1)]
            before += len(ends)
        return seconds

    def epoch_seconds(self) -> list[float]:
        """Wall seconds of each epoch; the first includes compilation."""
        begins = [self.train_begin, *(ends[-1] for ends in self.epochs[:-1])]
        return [(ends[-1] - begin) * 1e-9 for begin, ends in zip(begins, self.epochs, strict=True)]


def measure_training(training: Training) -> TrainingMeasurement:
    """Train once, then evaluate and verify, all of it timed.

    ValueError if no epoch is long enough to hold a sample: three steps, and `WARMUP_STEPS` before them in all.
    """
    clock = StepClock()
    begin = perf_counter()
    curves = dict(training.fit([clock.callback()]))
    fit_s = perf_counter() - begin
    samples = clock.samples()
    if not samples:
        steps = len(clock.epochs[-1]) if clock.epochs else 0
        raise ValueError(f"{steps} steps an epoch are too few to measure one: take a smaller batch or more epochs")
    begin = perf_counter()
    qualities = training.evaluate()
    verification = training.verify(curves, qualities)
    verify_s = perf_counter() - begin
    epochs = clock.epoch_seconds()
    return TrainingMeasurement(
        timing=Timing(samples=samples, stop="epochs done", timer="steps", summary=summarize(samples)),
        metrics=qualities
        | {
            "first_step": Metric(clock.first_step, "s"),
            "step_jitter": Metric(median_absolute_deviation(samples), "s"),
            "epoch": Metric(float(np.median(epochs[1:] or epochs)), "s"),
            "training": Metric(fit_s, "s"),
        },
        curves=curves | {"epoch_s": epochs},
        verification=verification,
        phases={
            "first_call_s": clock.first_step,
            "warmup_s": clock.warmup,
            "measure_s": fit_s - clock.first_step - clock.warmup,
            "verify_s": verify_s,
        },
    )


def median_absolute_deviation(samples: list[float]) -> float:
    """The median distance from the median: jitter that one slow step does not blow up."""
    values = np.asarray(samples)
    return float(np.median(np.abs(values - np.median(values))))
