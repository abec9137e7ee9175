"""The profile of a training, seen in a pass of its own: some more steps, after those that were measured.

The first steps of the pass are traced by the framework's profiler, and the trace says where a step's time goes. Where a
host profile is wanted, or no trace can be had, the steps after them are sampled by py-spy. The pass begins when the
measured training has ended and was verified: no probe ever touches a sample.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from math import ceil, nan
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from profiling.analysis.bottleneck import judge
from profiling.benchmark import Training
from profiling.host.profiler import HostProfiler
from profiling.ranks.world import world
from profiling.records.bottleneck import Bottleneck, Cause
from profiling.records.host import HostProfile, Shares
from profiling.records.point import Point
from profiling.records.record import Profile
from profiling.records.stored import Stored
from profiling.records.telemetry import Telemetry
from profiling.records.trace import LAUNCHING, Capture, Part, TraceAnalysis
from profiling.trace.analysis import analyze
from profiling.trace.capture import STEPS, TraceWindow

FIRST_STEP = 3
"""The number of steps before the traced ones, in which the input pipeline fills."""
TRACE_S, FEWEST_STEPS, MOST_STEPS = 2.0, 3, 50
"""The seconds that the traced steps take about, and the least and the largest number of them."""
HOST_S = 20.0
"""The seconds that py-spy samples: a window of each kind."""
PERIOD_S = 0.1
"""The period of a CPU quota in seconds: the kernel's default, and what Docker and Kubernetes set."""
CAUSE_OF_PART: dict[Part, Cause] = {
    "kernel": "device",
    "input_wait": "input",
    "host_to_device": "transfer",
    "device_to_host": "transfer",
    "collective": "communication",
    **dict.fromkeys(LAUNCHING, "dispatch"),
}


class EnoughSteps(Exception):
    """Ends a training whose steps were only to be looked at."""


class Keep(Stored):
    """The parts of a profile that are kept: folders within the directory of the run."""

    run: Path
    """The directory of the run."""
    trace: str | None = None
    """The folder for the trace; None where the trace is not kept."""
    host: str | None = None
    """The folder for the host's stacks; None where the host is not to be profiled."""


def profile_training(
    training: Training, point: Point, step_s: float, telemetry: Telemetry, keep: Keep | None = None
) -> Profile:
    """Train for some more steps under the profilers; what they cannot say is null with its reason.

    `step_s` are the seconds of a step, by which the pass is dimensioned.
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
        bottleneck=bottleneck(point, trace, host, telemetry, unseen),
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

    from profiling.host.overhead import step_overhead

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


def bottleneck(
    point: Point, trace: TraceAnalysis | None, host: HostProfile | None, telemetry: Telemetry, unseen: str | None
) -> Bottleneck:
    """Return the verdict by the trace; without one, by what the host was seen to do."""
    throttled = throttled_share(telemetry)
    if trace and trace.breakdown and not trace.failure:
        shares: dict[Cause, float] = {}
        for part, cause in CAUSE_OF_PART.items():
            shares[cause] = shares.get(cause, 0.0) + trace.breakdown.share(part)
        return judge(
            shares,
            source=f"trace of {trace.breakdown.steps} steps",
            kernel_s=trace.breakdown.parts["kernel"] / max(1.0, trace.breakdown.kernels),
            throttled_share=throttled,
        )
    if host and host.step_thread:
        shares = shares_of_host(host.step_thread, host.cpu, point.device == "cpu")
        return judge(shares, source=f"py-spy, for {unseen}", throttled_share=throttled)
    return Bottleneck(reason=f"{unseen}; {'; '.join(host.missing) if host else 'the host was not sampled'}")


def shares_of_host(step: Shares, cpu: Shares | None, cpu_is_device: bool) -> dict[Cause, float]:
    """Return the causes by the step thread's wall time; what it waits for on a CPU, the other threads tell."""
    computing = step["kernels"] if cpu_is_device else 0.0
    found: dict[Cause, float] = {
        "input": step["input"],
        "device": computing,
        "dispatch": step["dispatch"] + step["runtime"] + step["other"] + step["kernels"] - computing,
    }
    if cpu_is_device and cpu is not None and cpu["kernels"] + cpu["input"] > 0:
        of_input = cpu["input"] / (cpu["kernels"] + cpu["input"])
        found["input"] += step["waiting"] * of_input
        found["device"] += step["waiting"] * (1 - of_input)
    else:
        found["device"] += step["waiting"]
    return found


def throttled_share(telemetry: Telemetry) -> float | None:
    """Return the share of the CPU quota's periods in which it ran out; None where nothing counts them."""
    periods = telemetry.counters.get("cgroup.throttled_periods")
    wall = telemetry.counters["wall_s"]
    return None if periods is None or wall <= 0 else min(1.0, periods * PERIOD_S / wall)
