"""Timing of a training workload by its steps, each timed within an ordinary Keras `fit`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter_ns
from typing import Any

import numpy as np

from accelbench.profiling.benchmark import Training
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.timing import Timing
from accelbench.profiling.timing.position import page, showing
from accelbench.profiling.timing.statistics import summarize
from accelbench.profiling.timing.steady import steady_steps

WARMUP_STEPS = 5
"""The number of steps after the first that are not samples: allocators, caches and autotuning settle."""


@dataclass(frozen=True)
class TrainingMeasurement:
    """The outcome of one training run."""

    timing: Timing
    metrics: dict[str, Metric]
    curves: dict[str, list[float]]
    verification: Verification
    phases: dict[str, float]
    """The seconds by the field names of `accelbench.profiling.records.timing.Phases`."""
    steps: int
    """The number of steps of all epochs, the first and the warm-up included."""


@dataclass
class Epoch:
    """The beginning of an epoch, and the end of each of its steps, in nanoseconds on the step clock."""

    begin: int
    ends: list[int] = field(default_factory=list)
    starts_fit: bool = False
    """Whether a `fit` begins with it: its first step traces and compiles, and belongs to no epoch before it."""

    @property
    def seconds(self) -> float:
        return (self.ends[-1] - self.begin) * 1e-9


class StepClock:
    """The end of every training step, on a clock that the suite's own work stops; ends at a loss that is no number.

    A callback of one's own that overrides `on_train_batch_end` makes Keras call it in the training thread, after each
    step, with the loss as a Python number (keras/src/callbacks/callback_list.py: `_configure_async_dispatch` and
    `pythonify_logs`, on every backend). To have the number Keras must wait for the device: that is the one
    synchronisation that a sample needs, and the clock adds no other.
    """

    def __init__(self) -> None:
        self.train_begin = 0
        self.epochs: list[Epoch] = []
        self.stopped = 0
        """The nanoseconds for which the clock was stopped."""
        self._fit_begins = True

    def now(self) -> int:
        """Return the host clock's nanoseconds less those for which this clock was stopped."""
        return perf_counter_ns() - self.stopped

    @contextmanager
    def stop(self) -> Iterator[None]:
        """Stop the clock while the suite does work of its own within the training.

        What a pipeline reads ahead meanwhile still comes for nothing: at most its buffers, once for each stop.
        """
        begin = perf_counter_ns()
        try:
            yield
        finally:
            self.stopped += perf_counter_ns() - begin

    def callback(self) -> Any:
        """Return a Keras callback that drives this clock; ArithmeticError where the loss becomes NaN or infinite."""
        import keras

        clock = self

        class StepClockCallback(keras.callbacks.Callback):  # type: ignore[misc]
            def on_train_begin(self, logs: Mapping[str, float] | None = None) -> None:
                clock.train_begin = clock.train_begin or clock.now()
                clock._fit_begins = True

            def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
                clock.epochs.append(Epoch(clock.now(), starts_fit=clock._fit_begins))
                clock._fit_begins = False

            def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
                clock.epochs[-1].ends.append(clock.now())
                loss = (logs or {}).get("loss", 0.0)
                if not math.isfinite(loss):
                    raise ArithmeticError(f"the loss became {loss} in step {batch + 1} of epoch {len(clock.epochs)}")

        return StepClockCallback()

    @property
    def first_step(self) -> float:
        """Return the seconds from the start of training to the end of the first step: tracing and compilation."""
        return (self.epochs[0].ends[0] - self.train_begin) * 1e-9

    @property
    def warmup(self) -> float:
        """Return the seconds of the steps after the first that are warm-up."""
        return sum((ends[step] - ends[step - 1]) * 1e-9 for ends, first in self._sampled() for step in range(1, first))

    def samples(self) -> list[float]:
        """Return the seconds per step, input and callbacks included.

        Left out: the first step and the warm-up after it, and each epoch's first step, which has the epoch's turn in
        it.
        """
        return [
            (ends[step] - ends[step - 1]) * 1e-9 for ends, first in self._sampled() for step in range(first, len(ends))
        ]

    def steady(self) -> list[list[float]]:
        """Return the seconds of every step after the warm-up, epoch by epoch, each from the end of the step before.

        The first step of an epoch holds its turn: the callbacks at the end of the epoch before, and what a new pass
        over the data costs. The first step of a `fit` is left out, for it traces and compiles.
        """
        before, last, found = 0, 0, []
        for epoch in self.epochs:
            first = max(int(epoch.starts_fit), 1 + WARMUP_STEPS - before)
            ends = [last, *epoch.ends]
            found.append([(end - begin) * 1e-9 for begin, end in pairwise(ends)][first:])
            before, last = before + len(epoch.ends), ends[-1]
        return found

    def _sampled(self) -> Iterator[tuple[list[int], int]]:
        """Yield the ends of each epoch's steps, and which step is its first sample."""
        before = 0
        for epoch in self.epochs:
            yield epoch.ends, min(max(1, 1 + WARMUP_STEPS - before), max(1, len(epoch.ends)))
            before += len(epoch.ends)


class QualityCurve:
    """The quality after every epoch, and when it was first as good as the target; the clock is stopped for it."""

    def __init__(self, training: Training, clock: StepClock) -> None:
        self.training = training
        self.clock = clock
        self.after: list[dict[str, Metric]] = []

    def callback(self) -> Any:
        """Return a Keras callback that evaluates at the end of each epoch."""
        import keras

        quality = self

        class QualityCallback(keras.callbacks.Callback):  # type: ignore[misc]
            def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
                with quality.clock.stop():
                    quality.after.append(quality.training.evaluate())

        return QualityCallback()

    def curves(self) -> dict[str, list[float]]:
        """Return each held-out quality epoch by epoch, `test_accuracy` as `val_accuracy`."""
        names = [quality.name for quality in self.training.qualities] if self.after else []
        return {"val_" + name.removeprefix("test_"): [found[name].value for found in self.after] for name in names}

    def time_to_target(self, epochs: Sequence[Epoch]) -> float | None:
        """Return the seconds of training until the end of the first epoch that reached the target; None if none did."""
        assert self.training.target is not None
        name, value = self.training.target
        lower = any(quality.name == name and quality.better == "lower" for quality in self.training.qualities)
        for done, found in enumerate(self.after, start=1):
            if found[name].value <= value if lower else found[name].value >= value:
                return (epochs[done - 1].ends[-1] - epochs[0].begin) * 1e-9
        return None


class EnoughEpochs:
    """The end of a training whose speed alone is wanted: at a turn of epochs, once its steps have taken so long."""

    def __init__(self, least: int, seconds: float, clock: StepClock) -> None:
        self.least, self.seconds, self.clock = least, seconds, clock
        self.cut = False
        """Whether epochs were left out."""

    def callback(self) -> Any:
        """Return a Keras callback that ends the training."""
        import keras

        enough = self

        class EnoughEpochsCallback(keras.callbacks.Callback):  # type: ignore[misc]
            def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
                if not enough.least <= epoch + 1 < self.params["epochs"]:
                    return
                with enough.clock.stop():
                    steady_s = sum(map(sum, enough.clock.steady()))
                if steady_s >= enough.seconds:
                    enough.cut = self.model.stop_training = True

        return EnoughEpochsCallback()


def measure_training(training: Training, *watching: Any, seconds: float | None = None) -> TrainingMeasurement:
    """Train once, then evaluate and verify, all of it timed; `watching` are Keras callbacks that go before all others.

    With `seconds` the training ends once its steps have taken so long, if it can; its metrics are then those of its
    speed, as its quality is not that of the whole. ValueError if no epoch is long enough to hold a sample: two steps,
    and `WARMUP_STEPS` before them in all.
    """
    clock = StepClock()
    quality = QualityCurve(training, clock)
    callbacks, enough = [*watching, clock.callback()], None
    callbacks.append(showing(training.data.trainings))
    if training.target:
        callbacks.append(quality.callback())
    if seconds is not None and training.enough_epochs is not None:
        enough = EnoughEpochs(training.enough_epochs, seconds, clock)
        callbacks.append(enough.callback())
    begin = clock.now()
    curves = dict(training.fit(callbacks))
    fit_s = (clock.now() - begin) * 1e-9
    page().clear()
    samples = clock.samples()
    if not samples:
        steps = len(clock.epochs[-1].ends) if clock.epochs else 0
        raise ValueError(f"{steps} steps an epoch are too few to measure one: take a smaller batch or more epochs")
    with clock.stop():
        qualities = training.evaluate()
        verification = training.verify(curves, qualities)
    epochs = [epoch.seconds for epoch in clock.epochs]
    summary, steady = summarize(samples), steady_steps(clock.steady())
    figures = {
        "parameters": Metric(training.model.count_params()),
        "first_step": Metric(clock.first_step, "s"),
        "compile": Metric(max(0.0, clock.first_step - summary.median), "s"),
        "step_jitter": Metric(median_absolute_deviation(samples), "s"),
        "step_p95": Metric(float(np.percentile(samples, 95)), "s"),
        "step_p99": Metric(float(np.percentile(samples, 99)), "s"),
        "epoch": Metric(float(np.median(epochs[1:] or epochs)), "s"),
    }
    cut = enough is not None and enough.cut
    if not cut:
        figures = qualities | figures | {"training": Metric(fit_s, "s")}
    if training.target is not None and not cut:
        name, value = training.target
        figures[f"target_{name}"] = Metric(value)
        reached = quality.time_to_target(clock.epochs)
        if reached is not None:
            figures["time_to_target"] = Metric(reached, "s")
    return TrainingMeasurement(
        timing=Timing(
            samples=samples,
            stop="time limit" if cut else "epochs done",
            timer="steps",
            summary=summary,
            steady=steady,
        ),
        metrics=figures,
        curves=curves | quality.curves() | {"epoch_s": epochs},
        verification=verification,
        phases={
            "first_call_s": clock.first_step,
            "warmup_s": clock.warmup,
            "measure_s": fit_s - clock.first_step - clock.warmup,
            "verify_s": clock.stopped * 1e-9,
        },
        steps=sum(len(epoch.ends) for epoch in clock.epochs),
    )


def median_absolute_deviation(samples: list[float]) -> float:
    """Return the median distance from the median: jitter that one slow step does not blow up."""
    values = np.asarray(samples)
    return float(np.median(np.abs(values - np.median(values))))


class EnoughSteps(Exception):
    """Ends a training whose steps were only to be looked at."""


def train_until(fit: Callable[[list[Any]], object], over: Callable[[], bool], *callbacks: Any) -> None:
    """Train until a step after which it is over, or to the end."""
    import keras

    class Stop(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
            if over():
                raise EnoughSteps

    try:
        fit([*callbacks, Stop()])
    except EnoughSteps:
        return
