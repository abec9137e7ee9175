"""The profile of a training, seen in a pass of its own: some more steps, after those that were measured.

The first steps of the pass are traced by the framework's profiler, and the trace says where a step's time goes. Where a
host profile is wanted, or no trace can be had, the steps after them are sampled by py-spy. The pass begins when the
measured training has ended and was verified: no probe ever touches a sample.
"""

from __future__ import annotations

import os
from math import ceil, nan
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from accelbench.profiling.analysis.bottleneck import bottleneck
from accelbench.profiling.benchmark import Training
from accelbench.profiling.host.profiler import HostProfiler
from accelbench.profiling.ranks.world import world
from accelbench.profiling.records.bottleneck import CpuTime
from accelbench.profiling.records.host import HostProfile
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Profile
from accelbench.profiling.records.stored import Stored
from accelbench.profiling.records.trace import Capture
from accelbench.profiling.timing.steps import train_until
from accelbench.profiling.trace.analysis import analyze
from accelbench.profiling.trace.capture import STEPS, TraceWindow

FIRST_STEP = 3
"""The number of steps before the traced ones, in which the input pipeline fills."""
TRACE_S, FEWEST_STEPS, MOST_STEPS = 2.0, 3, 50
"""The seconds that the traced steps take about, and the least and the largest number of them."""
HOST_S = 20.0
"""The seconds that py-spy samples: a window of each kind."""


class KeptFolders(Stored):
    """The parts of a profile that are kept: folders within the directory of the run."""

    run: Path
    """The directory of the run."""
    trace: str | None = None
    """The folder for the trace; None where the trace is not kept."""
    host: str | None = None
    """The folder for the host's stacks; None where the host is not to be profiled."""


def profile_training(
    training: Training, point: Point, step_s: float, cpu: CpuTime | None = None, keep: KeptFolders | None = None
) -> Profile:
    """Train for some more steps under the profilers; what they cannot say is null with its reason.

    `step_s` are the seconds of a mean measured step, by which the pass is dimensioned, `cpu` is the CPU time of all.
    """
    begin = perf_counter()
    with TemporaryDirectory() as scratch:
        traces = keep.run / keep.trace if keep and keep.trace else Path(scratch, "trace")
        capture = trace_steps(training, point, step_s, traces)
        trace = analyze(traces, point.device) if capture.file else None
        unseen = capture.reason or (trace and (trace.failure or trace.missing.get("breakdown"))) or None
        host = None
        # Sampling takes steps until its time is over, which several ranks cannot do together.
        if world().size == 1 and (unseen or (keep and keep.host)):
            host = host_profile(training, point, keep.run / keep.host if keep and keep.host else Path(scratch, "host"))
    return Profile(
        bottleneck=bottleneck(point, trace, host, cpu, unseen, step_s),
        capture=capture,
        trace=trace,
        host=host,
        trace_folder=keep.trace if keep else None,
        host_folder=keep.host if keep else None,
        elapsed_s=perf_counter() - begin,
    )


def trace_steps(training: Training, point: Point, step_s: float, folder: Path) -> Capture:
    """Trace a window of steps of a training that ends with it."""
    steps = min(MOST_STEPS, max(FEWEST_STEPS, ceil(TRACE_S / step_s)))
    if world().size > 1:
        steps = STEPS  # all ranks train them together, and each knows the time of its own steps only
    with TraceWindow(folder, str(point.backend), FIRST_STEP, steps) as window:
        train_until(training.fit, window.is_past, window.callback())
    return window.outcome()


def host_profile(training: Training, point: Point, folder: Path) -> HostProfile:
    """Sample the process while it trains, several times over if a training is short."""
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
