"""Profile of a training workload, taken in additional steps after the measured ones.

The first steps are traced by the framework's profiler, which gives the breakdown of a step. If a host profile is
requested, or no trace is possible, further steps are sampled by py-spy. If steps wait for input, further ones with
batches from memory show how much a faster input can bring at most. All of it begins after the measured training run has
ended and was verified, so that none of it affects a sample.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count
from math import ceil, nan
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from time import perf_counter

from accelbench.profiling.analysis.bottleneck import bottleneck
from accelbench.profiling.analysis.experiments import checked, compare_steps, invalid
from accelbench.profiling.benchmark import Training
from accelbench.profiling.host.profiler import HostProfiler
from accelbench.profiling.ranks.world import world
from accelbench.profiling.records.bottleneck import Cause, CpuTime, StepsWithout
from accelbench.profiling.records.host import HostProfile
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Profile
from accelbench.profiling.records.stored import Stored
from accelbench.profiling.records.timing import Timing
from accelbench.profiling.records.trace import Capture
from accelbench.profiling.timing.steps import WARMUP_STEPS, StepClock, train_until
from accelbench.profiling.trace.analysis import analyze
from accelbench.profiling.trace.capture import STEPS, TraceWindow

FIRST_STEP = 3
"""The number of steps before the traced ones, in which the input pipeline fills."""
TRACE_S, FEWEST_STEPS, MOST_STEPS = 2.0, 3, 50
"""Approximate duration of the traced steps in seconds, and their smallest and largest number."""
INPUT_SHARE = 0.05
"""Share of a step that waits for input from which it is taken away by experiment."""
KEPT_BATCHES = 4
"""Number of batches of the experiment: no more than the steps before its first sample, in which a cache is filled."""
FEWEST_SAMPLES = 10
"""Smallest number of steps of the experiment."""
HOST_S = 20.0
"""Duration of sampling by py-spy in seconds, for one window of each kind."""


class KeptFolders(Stored):
    """Folders in the run directory for those parts of a profile that are kept."""

    run: Path
    """The directory of the run."""
    trace: str | None = None
    """The folder for the trace; None where the trace is not kept."""
    host: str | None = None
    """The folder for the host's stacks; None where the host is not to be profiled."""


def profile_training(
    training: Training, point: Point, timing: Timing, cpu: CpuTime | None = None, keep: KeptFolders | None = None
) -> Profile:
    """Train for additional steps under the profilers and return the profile; an unknown is null with its reason.

    The number of profiled steps is chosen by the `timing` of the measured ones; `cpu` is their CPU time.
    """
    begin, step_s = perf_counter(), fmean(timing.used)
    with TemporaryDirectory() as scratch:
        traces = keep.run / keep.trace if keep and keep.trace else Path(scratch, "trace")
        capture = trace_steps(training, point, step_s, traces)
        trace = analyze(traces, point.device) if capture.file else None
        unavailable = capture.reason or (trace and (trace.failure or trace.missing.get("breakdown"))) or None
        host = None
        # Sampling ends by time, so that several ranks would not agree on the number of steps.
        if world().size == 1 and (unavailable or (keep and keep.host)):
            host = host_profile(training, point, keep.run / keep.host if keep and keep.host else Path(scratch, "host"))
    verdict = bottleneck(point, trace, host, cpu, unavailable, step_s)
    waits = verdict.shares.get("input", 0.0) >= INPUT_SHARE
    missing = []
    try:
        seconds = steps_from_memory(training, step_s) if waits else []
    except Exception as error:  # noqa: BLE001 - any error of a framework; the verdict remains without an experiment
        seconds, missing = [], [f"the experiment on the input: {type(error).__name__}: {error}"]
    experiments: dict[Cause, StepsWithout | None] = {"input": compare_steps(timing.steady, [seconds])}
    verdict = checked(verdict, experiments)
    return Profile(
        bottleneck=verdict,
        capture=capture,
        trace=trace,
        host=host,
        trace_folder=keep.trace if keep else None,
        host_folder=keep.host if keep else None,
        missing=[*missing, *invalid(experiments)],
        elapsed_s=perf_counter() - begin,
    )


def trace_steps(training: Training, point: Point, step_s: float, folder: Path) -> Capture:
    """Trace a window of training steps; the training run ends after the window."""
    steps = min(MOST_STEPS, max(FEWEST_STEPS, ceil(TRACE_S / step_s)))
    if world().size > 1:
        steps = STEPS  # all ranks train the same number of steps, and a step time differs from rank to rank
    with TraceWindow(folder, str(point.backend), FIRST_STEP, steps) as window:
        train_until(training.fit, window.is_past, window.callback())
    return window.outcome()


def steps_from_memory(training: Training, step_s: float) -> list[float]:
    """Return the seconds of steps that do not wait for input; a short training run is repeated.

    Empty if the training cannot repeat batches, or has several ranks, which would not agree on the number of steps.
    """
    if world().size > 1 or training.from_memory is None:
        return []
    steps, clock = min(MOST_STEPS, max(FEWEST_SAMPLES, ceil(TRACE_S / step_s))), StepClock()
    with training.from_memory(KEPT_BATCHES), suppress(ArithmeticError):  # the loss diverges on a few repeated batches
        while (lacking := steps - len(clock.samples())) > 0:
            left = count(lacking + WARMUP_STEPS, -1)
            train_until(training.fit, lambda left=left: next(left) <= 0, clock.callback())  # type: ignore[misc]
    return clock.samples() if len(clock.samples()) >= FEWEST_SAMPLES else []


def host_profile(training: Training, point: Point, folder: Path) -> HostProfile:
    """Profile the host during training; a short training run is repeated."""
    from keras.callbacks import LambdaCallback

    from accelbench.profiling.host.overhead import step_overhead

    begin, step_ends = perf_counter(), list[float]()

    def over() -> bool:
        return perf_counter() - begin > HOST_S

    ends = LambdaCallback(
        on_epoch_begin=lambda epoch, logs: step_ends.append(nan),
        on_train_batch_end=lambda step, logs: step_ends.append(perf_counter()),
    )
    with HostProfiler(os.getpid(), folder, device=point.device) as profiler:
        while not over():
            train_until(training.fit, over, ends)
    found = profiler.result()
    return found.model_copy(update={"overhead": step_overhead(step_ends, found.sampling.windows)})
