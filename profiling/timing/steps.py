"""Timing of a training workload by the steps of an unmodified Keras `fit`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from time import perf_counter, perf_counter_ns
from typing import Any

import numpy as np

from accelbench.profiling.benchmark import Training
from accelbench.profiling.records.quality import ConfusionMatrix, Metric, Verification
from accelbench.profiling.records.timing import StopReason, Timing
from accelbench.profiling.timing.blocks import BlockLog
from accelbench.profiling.timing.causes import choose_samples, overlap_s
from accelbench.profiling.timing.host import with_causes
from accelbench.profiling.timing.position import page, progress_callback
from accelbench.profiling.timing.statistics import summarize
from accelbench.profiling.timing.steady import steady_of_chosen, steady_steps

WARMUP_STEPS = 5
"""The number of warm-up steps after the first step: allocators, caches and autotuning settle."""


@dataclass(frozen=True)
class TrainingMeasurement:
    """Result of one training run."""

    timing: Timing
    metrics: dict[str, Metric]
    curves: dict[str, list[float]]
    confusion: ConfusionMatrix | None
    verification: Verification
    phases: dict[str, float]
    """The seconds by the field names of `accelbench.profiling.records.timing.Phases`."""
    steps: int
    """The number of steps of all epochs, first step and warm-up included."""
    without: Callable[[Sequence[tuple[float, float]]], Timing]
    """Function that returns the timing without the blocks in which another process used the GPU, given the times."""


@dataclass
class Epoch:
    """Start of an epoch and end of each of its steps, in nanoseconds on the step clock."""

    begin: int
    ends: list[int] = field(default_factory=list)
    starts_fit: bool = False
    """Whether it is the first epoch of a `fit`, so that its first step includes tracing and compilation."""
    first_steady: int | None = None
    """The index of its first steady step; None before its first step ends."""

    @property
    def seconds(self) -> float:
        return (self.ends[-1] - self.begin) * 1e-9


def _first_steady(epoch: Epoch, before: int) -> int:
    """Return the index of the first steady step of an epoch after `before` steps; at most 0 for its first step."""
    return max(int(epoch.starts_fit), 1 + WARMUP_STEPS - before)


class StepClock:
    """Clock that records the end of every training step and is stopped during accelbench's own work.

    Keras calls a callback that overrides `on_train_batch_end` in the training thread, after each step, with the loss as
    a Python number (keras/src/callbacks/callback_list.py: `_configure_async_dispatch` and `pythonify_logs`, on every
    backend). To convert the loss, Keras waits for the device. A sample needs this synchronisation; the clock adds no
    other. With a log, the steps are divided into blocks, between which the log reads what others used.
    """

    def __init__(self, log: BlockLog | None = None) -> None:
        self.log = log
        self.train_begin = 0
        self.epochs: list[Epoch] = []
        self.stopped = 0
        """The nanoseconds for which the clock was stopped."""
        self._fit_begins = True

    def now(self) -> int:
        """Return the host clock's nanoseconds, less the time for which this clock was stopped."""
        return perf_counter_ns() - self.stopped

    @contextmanager
    def stop(self) -> Iterator[None]:
        """Stop the clock during accelbench's own work, such as an evaluation.

        Batches prefetched during the pause cost the next steps nothing (at most the pipeline's buffers).
        """
        begin = perf_counter_ns()
        if self.log:
            self.log.pause()
        try:
            yield
        finally:
            if self.log:
                self.log.resume()
            self.stopped += perf_counter_ns() - begin

    def callback(self) -> Any:
        """Return a Keras callback that drives this clock, and raises ArithmeticError for a NaN or infinite loss."""
        import keras

        clock = self

        class StepClockCallback(keras.callbacks.Callback):  # type: ignore[misc]
            def on_train_begin(self, logs: Mapping[str, float] | None = None) -> None:
                clock.train_begin = clock.train_begin or clock.now()
                clock._fit_begins = True

            def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
                clock.epochs.append(Epoch(clock.now(), starts_fit=clock._fit_begins))
                clock._fit_begins = False

            def on_train_end(self, logs: Mapping[str, float] | None = None) -> None:
                if clock.log:
                    clock.log.flush()

            def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
                clock.epochs[-1].ends.append(clock.now())
                if clock.log:
                    clock._add_to_block(clock.log)
                loss = (logs or {}).get("loss", 0.0)
                if not math.isfinite(loss):
                    raise ArithmeticError(f"the loss is {loss} in step {batch + 1} of epoch {len(clock.epochs)}")

        return StepClockCallback()

    def _add_to_block(self, log: BlockLog) -> None:
        """Add the step that has just ended to a block; begin the first block of a `fit` after its warm-up."""
        epoch = self.epochs[-1]
        if epoch.first_steady is None:
            epoch.first_steady = _first_steady(epoch, sum(len(each.ends) for each in self.epochs[:-1]))
        done = len(epoch.ends)
        if done > epoch.first_steady:
            log.step(is_sample=done > 1)
        elif done == epoch.first_steady:
            with self.stop():
                log.begin()

    @property
    def first_step(self) -> float:
        """Return the seconds from the start of training to the end of the first step: tracing and compilation."""
        return (self.epochs[0].ends[0] - self.train_begin) * 1e-9

    @property
    def warmup(self) -> float:
        """Return the seconds of the warm-up steps after the first step."""
        return sum((ends[step] - ends[step - 1]) * 1e-9 for ends, first in self._sampled() for step in range(1, first))

    def samples(self) -> list[float]:
        """Return the seconds per step, input and callbacks included.

        Excluded are the first step, the warm-up, and the first step of each epoch, which includes the epoch boundary.
        """
        return [
            (ends[step] - ends[step - 1]) * 1e-9 for ends, first in self._sampled() for step in range(first, len(ends))
        ]

    def steady(self) -> list[list[float]]:
        """Return the seconds of every step after the warm-up by epoch, each from the end of the previous step.

        The first step of an epoch includes the epoch boundary: the callbacks at the end of the previous epoch, and the
        start of a new pass over the data. The first step of a `fit` is excluded, since it traces and compiles.
        """
        before, last, found = 0, 0, []
        for epoch in self.epochs:
            first = _first_steady(epoch, before)
            ends = [last, *epoch.ends]
            found.append([(end - begin) * 1e-9 for begin, end in pairwise(ends)][first:])
            before, last = before + len(epoch.ends), ends[-1]
        return found

    def begins_with_turn(self) -> list[bool]:
        """Return for each epoch whether its first steady step includes an epoch boundary."""
        before, found = 0, []
        for epoch in self.epochs:
            found.append(_first_steady(epoch, before) <= 0)
            before += len(epoch.ends)
        return found

    def _sampled(self) -> Iterator[tuple[list[int], int]]:
        """Yield for each epoch the ends of its steps and the index of its first sample."""
        before = 0
        for epoch in self.epochs:
            yield epoch.ends, min(max(1, 1 + WARMUP_STEPS - before), max(1, len(epoch.ends)))
            before += len(epoch.ends)


class QualityCurve:
    """Quality after every epoch, evaluated while the clock is stopped, and the time to reach the target."""

    def __init__(self, training: Training, clock: StepClock) -> None:
        self.training = training
        self.clock = clock
        self.after: list[dict[str, Metric]] = []
        self.on_training: list[Mapping[str, float]] = []

    def callback(self) -> Any:
        """Return a Keras callback that evaluates at the end of each epoch."""
        import keras

        quality = self

        class QualityCallback(keras.callbacks.Callback):  # type: ignore[misc]
            def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
                training = quality.training
                with quality.clock.stop():
                    quality.after.append(training.evaluate())
                    if training.evaluate_training:
                        quality.on_training.append(training.evaluate_training())

        return QualityCallback()

    def curves(self) -> dict[str, list[float]]:
        """Return each quality by epoch; the held-out `test_accuracy` is named `val_accuracy`."""
        names = [quality.name for quality in self.training.qualities] if self.after else []
        curves = {"val_" + name.removeprefix("test_"): [found[name].value for found in self.after] for name in names}
        seen = self.on_training[:1]
        return curves | {name: [found[name] for found in self.on_training] for found in seen for name in found}

    def time_to_target(self, epochs: Sequence[Epoch]) -> float | None:
        """Return the training time until the end of the first epoch that reached the target; None if none did."""
        assert self.training.target is not None
        name, value = self.training.target
        lower = any(quality.name == name and quality.better == "lower" for quality in self.training.qualities)
        for done, found in enumerate(self.after, start=1):
            if found[name].value <= value if lower else found[name].value >= value:
                return (epochs[done - 1].ends[-1] - epochs[0].begin) * 1e-9
        return None


class EnoughEpochs:
    """Early end of a training run that measures only the speed: at an epoch boundary after `seconds` of steps.

    If too few blocks of steps are clean, the training continues for at most `patience_s`.
    """

    def __init__(self, least: int, seconds: float, clock: StepClock, patience_s: float) -> None:
        self.least, self.seconds, self.clock, self.patience_s = least, seconds, clock, patience_s
        self.cut = False
        """Whether the training run was ended early."""
        self.extended_s = 0.0
        """The time by which the steps exceed `seconds`, because too few blocks were clean."""

    def callback(self) -> Any:
        """Return a Keras callback that ends the training."""
        import keras

        enough = self

        class EnoughEpochsCallback(keras.callbacks.Callback):  # type: ignore[misc]
            def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
                if not enough.least <= epoch + 1 < self.params["epochs"]:
                    return
                with enough.clock.stop():
                    if enough._is_over():
                        enough.cut = self.model.stop_training = True

        return EnoughEpochsCallback()

    def _is_over(self) -> bool:
        beyond_s = sum(map(sum, self.clock.steady())) - self.seconds
        if beyond_s < 0:
            return False
        if self.clock.log is None or beyond_s >= self.patience_s or self.clock.log.has_enough():
            return True
        self.extended_s = beyond_s
        return False


def measure_training(
    training: Training,
    *watching: Any,
    seconds: float | None = None,
    log: BlockLog | None = None,
    patience_s: float = 0.0,
) -> TrainingMeasurement:
    """Train once, then evaluate and verify; return the times and results.

    `watching` are Keras callbacks that are called before all others. With `seconds`, the training run may end early
    after that many seconds of steps; its metrics are then without qualities, since not all epochs were trained. With a
    log, the times are of the clean blocks of steps; if they are too few, further steps are trained after the
    verification, for at most `patience_s`. Raises ValueError if no epoch is long enough for a sample: two steps, after
    `WARMUP_STEPS` steps of all epochs.
    """
    clock = StepClock(log)
    if seconds is not None:
        training = replace(training, evaluate_training=None)
    quality = QualityCurve(training, clock)
    callbacks, enough = [*watching, clock.callback()], None
    callbacks.append(progress_callback(training.data.trainings))
    if training.target or training.evaluate_training:
        callbacks.append(quality.callback())
    if seconds is not None and training.enough_epochs is not None:
        enough = EnoughEpochs(training.enough_epochs, seconds, clock, patience_s)
        callbacks.append(enough.callback())
    begin = clock.now()
    curves = dict(training.fit(callbacks))
    fit_s = (clock.now() - begin) * 1e-9
    page().clear()
    if not clock.samples():
        steps = len(clock.epochs[-1].ends) if clock.epochs else 0
        raise ValueError(f"too few steps per epoch for a sample: {steps}; use a smaller batch or more epochs")
    with clock.stop():
        qualities = training.evaluate()
        verification = training.verify(curves, qualities)
        confusion = training.confusion() if training.confusion else None
    verify_s, fitted = clock.stopped * 1e-9, list(clock.epochs)
    beyond_s, further_s, failure = enough.extended_s if enough else 0.0, 0.0, ""
    if log and verification.passed:
        further_s, failure = train_further(training, clock, log, patience_s - beyond_s)
    cut = enough is not None and enough.cut
    if log:
        log.finish()
    without = partial(timing_of_steps, clock, "time limit" if cut else "epochs done", beyond_s + further_s, failure)
    timing = without(())
    epochs = [epoch.seconds for epoch in fitted]
    metrics = {
        "parameters": Metric(training.model.count_params()),
        "first_step": Metric(clock.first_step, "s"),
        "compile": Metric(max(0.0, clock.first_step - timing.summary.median), "s"),
        "step_jitter": Metric(median_absolute_deviation(timing.used), "s"),
        "step_p95": Metric(float(np.percentile(timing.used, 95)), "s"),
        "step_p99": Metric(float(np.percentile(timing.used, 99)), "s"),
        "epoch": Metric(float(np.median(epochs[1:] or epochs)), "s"),
    }
    if not cut:
        metrics = qualities | metrics | {"training": Metric(fit_s, "s")}
    if training.target is not None and not cut:
        name, value = training.target
        metrics[f"target_{name}"] = Metric(value)
        reached = quality.time_to_target(fitted)
        if reached is not None:
            metrics["time_to_target"] = Metric(reached, "s")
    warmup_s = clock.warmup
    return TrainingMeasurement(
        timing=timing,
        metrics=metrics,
        curves=curves | quality.curves() | {"epoch_s": epochs},
        confusion=None if cut else confusion,
        verification=verification,
        phases={
            "first_call_s": clock.first_step,
            "warmup_s": warmup_s,
            "measure_s": fit_s - clock.first_step - warmup_s + further_s,
            "verify_s": verify_s,
        },
        steps=sum(len(epoch.ends) for epoch in clock.epochs),
        without=without,
    )


def train_further(training: Training, clock: StepClock, log: BlockLog, patience_s: float) -> tuple[float, str]:
    """Train again until enough blocks of steps are clean, for at most `patience_s`; return the seconds.

    The second value is the reason, as text, if the training cannot be repeated.
    """
    begin, judged, has_enough = perf_counter(), -1, False

    def over() -> bool:
        nonlocal judged, has_enough
        if judged != len(log.readings):
            judged, has_enough = len(log.readings), log.has_enough()
        return has_enough or perf_counter() - begin >= patience_s

    failure = ""
    while not failure and not over():
        try:
            train_until(training.fit, over, clock.callback())
        except Exception as error:  # noqa: BLE001 - any error of a framework; what was measured remains valid
            failure = f"further steps failed: {type(error).__name__}: {error}"
    return perf_counter() - begin, failure


def timing_of_steps(
    clock: StepClock,
    stop: StopReason,
    extended_s: float = 0.0,
    failure: str = "",
    shared: Sequence[tuple[float, float]] = (),
) -> Timing:
    """Return the timing of all steps, or of the clean blocks if the clock has a log, which is finished.

    If too few blocks are clean, the mean step is an upper bound: the upper end of the interval of the least disturbed
    blocks, with `failure` as a further reason. In the times `shared`, another process used the GPU.
    """
    samples, epochs = clock.samples(), clock.steady()
    timing = Timing(
        samples=samples,
        stop=stop,
        timer="steps",
        summary=summarize(samples),
        steady=steady_steps(epochs),
        extended_s=extended_s,
    )
    if clock.log is None or not clock.log.readings:
        return timing
    readings = clock.log.readings
    for reading, (begin, end) in zip(readings, clock.log.times, strict=True):
        reading.card_s = overlap_s(begin, end, shared)
    chosen = choose_samples(readings, clock.log.source)
    timing, steady = with_causes(timing, chosen), timing.steady
    assert steady
    if chosen.causes.first:
        used = {reading.first for reading in chosen.used}
        ranges = [steps for reading, steps in zip(readings, clock.log.steps, strict=True) if reading.first in used]
        steady = steady_of_chosen(epochs, clock.begins_with_turn(), ranges)
    if not timing.upper_bound:
        low = steady.ci_low * (1 - clock.log.largest_delay(chosen.used))
        return timing.model_copy(update={"steady": steady.model_copy(update={"ci_low": low})})
    reason = "; ".join(filter(None, [timing.upper_bound, failure]))
    return timing.model_copy(
        update={"steady": steady.model_copy(update={"mean": steady.ci_high}), "upper_bound": reason}
    )


def median_absolute_deviation(samples: list[float]) -> float:
    """Return the median absolute deviation from the median, a measure of jitter that is robust to outliers."""
    values = np.asarray(samples)
    return float(np.median(np.abs(values - np.median(values))))


class EnoughSteps(Exception):
    """Raised to end a training run after a condition is met."""


def train_until(fit: Callable[[list[Any]], object], over: Callable[[], bool], *callbacks: Any) -> None:
    """Train until `over()` is true after a step, or until the training ends."""
    import keras

    class Stop(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
            if over():
                raise EnoughSteps

    try:
        fit([*callbacks, Stop()])
    except EnoughSteps:
        return
