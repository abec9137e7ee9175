"""Bottleneck of a training workload, from the shares of its step time, with remedies."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accelbench.profiling.records.bottleneck import CAUSES, Bottleneck, Bound, Cause, CpuTime
from accelbench.profiling.records.host import HostProfile, Shares
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.trace import LAUNCHING, Breakdown, Part, TraceAnalysis
from accelbench.profiling.timing.statistics import ratio_interval

Seconds = NDArray[np.float64]
"""Seconds of a cause in each step."""

QUOTA_SHARE = 0.25
"""Share of throttled time from which the CPU quota is the bottleneck."""
NEAR = 0.1
"""Difference of two shares below which both causes are reported."""
MAX_RATIO = 2.0
"""Ratio of a traced step to a measured one above which a warning is added."""
MIN_REPORTED = 0.05
"""Smallest share of the time for which CPU quota and contention are reported."""
TINY_KERNEL_S = 10e-6
"""Mean kernel time in seconds below which a launch takes as long as the kernel."""
CAUSE_OF_PART: dict[Part, Cause] = {
    "kernel": "device",
    "input_wait": "input",
    "host_to_device": "transfer",
    "device_to_host": "transfer",
    "collective": "communication",
    **dict.fromkeys(LAUNCHING, "dispatch"),
}
BOUND_OF: dict[Cause, Bound] = {
    "device": "device-bound",
    "input": "input-bound",
    "dispatch": "dispatch-bound",
    "transfer": "transfer-bound",
    "communication": "communication-bound",
    "contention": "cpu-contended",
}

HELP: dict[Bound, str] = {
    "device-bound": "a faster device, lower precision (--param precision=…) or compilation (--param jit_compile=on)",
    "input-bound": "more input workers (--param workers=…) and prefetching, more host cores (for the number, see "
    "'accelbench cores'), or preprocessed examples",
    "dispatch-bound": "larger batches, fewer and larger operations, or compilation (--param jit_compile=on)",
    "transfer-bound": "fewer bytes to the device (uint8 pixels, converted on the device), prefetching to the device, "
    "or a faster link",
    "communication-bound": "larger batches per device, smaller gradients (lower precision), or a faster interconnect",
    "cpu-contended": "exclusive CPUs (end other processes, or request an exclusive node), more CPUs, or at most one "
    "thread per CPU",
    "cpu-quota-bound": "a higher CPU limit of the container (docker run --cpus=…, the pod's limits.cpu, "
    "Slurm's --cpus-per-task), or fewer threads",
}


def bottleneck(
    point: Point,
    trace: TraceAnalysis | None,
    host: HostProfile | None,
    cpu: CpuTime | None,
    no_trace: str | None,
    step_s: float | None = None,
    waiting: float = 0.0,
) -> Bottleneck:
    """Return the bottleneck from the trace, or from the host profile if there is no trace.

    `cpu` is the CPU time of the measured steps, `step_s` their mean time in seconds, `waiting` the share of them that
    was observed to wait for input, and `no_trace` the reason for a missing trace.
    """
    on_cpu = point.device == "cpu"
    if trace and trace.breakdown and not trace.failure:
        traced = trace.breakdown
        return judge(
            seconds_by_cause(traced),
            source=f"trace of {traced.steps} steps",
            kernel_s=traced.parts["kernel"] / max(1.0, traced.kernels),
            cpu=cpu,
            cpu_is_device=on_cpu,
            apart_text=difference_text(traced.step_s, step_s),
            waiting=waiting,
        )
    if host and host.step_thread:
        shares = shares_of_host(host.step_thread, host.cpu, on_cpu)
        return judge(shares, source=f"py-spy ({no_trace})", cpu=cpu, cpu_is_device=on_cpu, waiting=waiting)
    missing = "; ".join(host.missing) if host else "the host was not sampled"
    return Bottleneck(reason=f"{no_trace}; {missing}", cpu=cpu)


def judge(
    time: Mapping[Cause, ArrayLike],
    *,
    source: str,
    kernel_s: float | None = None,
    cpu: CpuTime | None = None,
    cpu_is_device: bool = True,
    apart_text: str | None = None,
    waiting: float = 0.0,
) -> Bottleneck:
    """Return the bottleneck of steps from the time of each cause, per step or in total; `source` names the profiler.

    `kernel_s` is the mean kernel time in seconds; the time of tiny kernels counts as dispatch. `cpu` has the run-queue
    wait and the throttled time. Heavy throttling by the CPU quota takes precedence over all causes, because a throttled
    process waits longer for everything. `waiting` is the share of the steps that was observed to wait for input, which
    a profile may count as dispatch.
    """
    seconds = _with_observed_wait(_steps(time), waiting)
    shares_text = f"{source}: {_shares_text(seconds)}"
    kernels_text = None
    if kernel_s is not None and kernel_s < TINY_KERNEL_S and seconds["device"].any():
        kernels_text = f"the mean kernel takes {1e6 * kernel_s:.1f} µs, no longer than its launch: counted as dispatch"
        seconds["dispatch"], seconds["device"] = seconds["dispatch"] + seconds["device"], 0 * seconds["device"]
    seconds, contention_text = _contended(seconds, cpu, cpu_is_device)
    evidence = Bottleneck(
        cpu=cpu,
        shares_text=shares_text,
        kernels_text=kernels_text,
        contention_text=contention_text,
        quota_text=quota_text(cpu),
        apart_text=apart_text,
    )
    return decide(seconds, source, evidence)


def decide(seconds: Mapping[Cause, Seconds], source: str, evidence: Bottleneck) -> Bottleneck:
    """Return the evidence with its verdict: the CPU quota after heavy throttling, else the cause with the most time."""
    whole = np.sum(list(seconds.values()), axis=0)
    throttled = evidence.cpu is not None and (evidence.cpu.stopped or 0.0) >= QUOTA_SHARE
    if not throttled and whole.sum() <= 0:
        return evidence.model_copy(update={"reason": f"{source}: no time was recorded"})
    shares = shares_of(seconds)
    first, *others = sorted(CAUSES, key=lambda cause: -shares[cause])
    bounds: list[Bound] = [BOUND_OF[first]]
    if throttled:
        bounds = ["cpu-quota-bound"]
    else:
        bounds += [BOUND_OF[cause] for cause in others if shares[cause] > 0 and _as_large(seconds, first, cause, whole)]
    intervals = {cause: share_interval(its, whole) for cause, its in seconds.items()}
    return evidence.model_copy(
        update={
            "bound": bounds[0],
            "beside": bounds[1:],
            "reason": None,
            "shares": shares,
            "intervals": {cause: interval for cause, interval in intervals.items() if interval},
            "help": "; or ".join(HELP[bound] for bound in bounds),
        }
    )


def seconds_by_cause(breakdown: Breakdown) -> dict[Cause, Seconds]:
    """Return the seconds of each cause in each step, or in the mean step if the breakdown has no single steps."""
    found: dict[Cause, Seconds] = {}
    for part, cause in CAUSE_OF_PART.items():
        seconds = breakdown.of_steps.get(part, 0.0) if breakdown.of_steps else breakdown.parts[part]
        found[cause] = found.get(cause, np.zeros(1)) + np.asarray(seconds, float)
    return found


def shares_of(seconds: Mapping[Cause, Seconds]) -> dict[Cause, float]:
    """Return the share of each cause in the total time of all steps."""
    total = sum(float(its.sum()) for its in seconds.values())
    return {cause: float(its.sum()) / total if total > 0 else 0.0 for cause, its in seconds.items()}


def share_interval(part: Seconds, whole: Seconds) -> tuple[float, float] | None:
    """Return the 95 % interval of a cause's share, for autocorrelated steps; None for a single step."""
    interval = ratio_interval(part, whole)
    return None if interval is None else (max(0.0, interval.low), min(1.0, interval.high))


def difference_text(traced_s: float, measured_s: float | None) -> str | None:
    """Return a warning if a traced step and a measured one differ by more than a factor of two; else None."""
    if not measured_s or not traced_s or 1 / MAX_RATIO <= traced_s / measured_s <= MAX_RATIO:
        return None
    return (
        f"a traced step takes {traced_s / measured_s:.1f}× the time of a measured one ({1e3 * traced_s:.3g} ms and "
        f"{1e3 * measured_s:.3g} ms): the shares of the measured steps may differ"
    )


def quota_text(cpu: CpuTime | None) -> str | None:
    """Return the share of throttled time as text; None if it is below `MIN_REPORTED`."""
    if cpu is None or cpu.stopped is None or cpu.stopped < MIN_REPORTED:
        return None
    return f"the CPU quota throttled the process for {cpu.stopped:.0%} of the time"


def shares_of_host(step: Shares, cpu: Shares | None, cpu_is_device: bool) -> dict[Cause, float]:
    """Return the share of each cause in the step thread's wall time.

    On a CPU, the waiting time of the step thread is divided in the ratio of kernels and input in the CPU time of all
    threads.
    """
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


def _steps(time: Mapping[Cause, ArrayLike]) -> dict[Cause, Seconds]:
    """Return arrays of the same length with the seconds of every cause in each step; 0 for missing causes."""
    arrays = np.broadcast_arrays(*(np.atleast_1d(np.asarray(time.get(cause, 0.0), float)) for cause in CAUSES))
    return dict(zip(CAUSES, arrays, strict=True))


def _with_observed_wait(seconds: dict[Cause, Seconds], waiting: float) -> dict[Cause, Seconds]:
    """Return the seconds with an observed wait for input that the profile counts as dispatch.

    A wait that overlaps with work of the device is no dispatch in a trace, and remains uncounted.
    """
    shares = shares_of(seconds)
    hidden = min(waiting - shares["input"], shares["dispatch"])
    if hidden < MIN_REPORTED:
        return seconds
    moved = seconds["dispatch"] * (hidden / shares["dispatch"])
    return seconds | {"input": seconds["input"] + moved, "dispatch": seconds["dispatch"] - moved}


def _contended(
    seconds: dict[Cause, Seconds], cpu: CpuTime | None, cpu_is_device: bool
) -> tuple[dict[Cause, Seconds], str | None]:
    """Return the seconds with contention separated from dispatch and CPU kernels, and a text on it.

    A trace does not distinguish a running thread from one that waits for a CPU. Work on the CPU is assumed to wait for
    the same share of its time as all threads together, but never longer than the thread that waited the longest. Input
    is unchanged, since a step may wait for input while no thread is runnable.
    """
    if cpu is None or cpu.contended <= 0:
        return seconds, None
    on_cpu: list[Cause] = ["dispatch", "device"] if cpu_is_device else ["dispatch"]
    shares = shares_of(seconds)
    affected = sum(shares[cause] for cause in on_cpu)
    factor = min(cpu.waited, cpu.contended / affected) if affected > 0 else 0.0
    found = seconds | {cause: (1 - factor) * seconds[cause] for cause in on_cpu}
    found["contention"] = seconds["contention"] + factor * sum(seconds[cause] for cause in on_cpu)
    if max(factor * affected, min(cpu.waited, cpu.contended)) < MIN_REPORTED:
        return found, None
    return found, (
        f"threads waited {cpu.contended_s:.1f} s for a free CPU, {cpu.waited:.0%} of their runnable time: "
        f"{factor * affected:.0%} of the step counts as contention"
    )


def _as_large(seconds: Mapping[Cause, Seconds], first: Cause, other: Cause, whole: Seconds) -> bool:
    """Return whether another cause is nearly as large as the first, or not significantly smaller."""
    gap = seconds[first] - seconds[other]
    interval = ratio_interval(gap, whole)
    return float(gap.sum() / whole.sum()) < NEAR or (interval is not None and interval.low <= 0.0)


def _shares_text(seconds: Mapping[Cause, Seconds]) -> str:
    """Return the share of each cause with its interval as text, the largest first."""
    whole = np.sum(list(seconds.values()), axis=0)
    shares = shares_of(seconds)
    words = []
    for cause in sorted((cause for cause in CAUSES if shares[cause] > 0), key=lambda cause: -shares[cause]):
        interval = share_interval(seconds[cause], whole)
        ends = f" ({100 * interval[0]:.0f} to {100 * interval[1]:.0f}%)" if interval else ""
        words.append(f"{cause} {shares[cause]:.0%}{ends}")
    return ", ".join(words) or "no time"
