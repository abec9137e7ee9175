"""Bottleneck of a training workload, from where the time of its steps went, with remedies."""

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
"""The seconds of a cause in each step."""

QUOTA_SHARE = 0.25
"""The share of the time from which on a process that its quota stops is slowed by that, whatever else it waits for."""
NEAR = 0.1
"""The difference of two shares below which both causes are named."""
APART = 2.0
"""The factor between a traced and a measured step above which it is said."""
WORTH_A_WORD = 0.05
"""The share of the time from which on the CPU's quota and its contention are spoken of."""
TINY_KERNEL_S = 10e-6
"""The mean time of a kernel, in seconds, below which starting it takes as long as running it."""
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
    "input-bound": "more input workers (--param workers=…) and prefetching, more host cores ('accelbench cores' tells "
    "how many), or examples prepared beforehand",
    "dispatch-bound": "larger batches, fewer and larger operations, or compilation (--param jit_compile=on)",
    "transfer-bound": "fewer bytes to the device (uint8 pixels, converted there), prefetching to it, a faster link",
    "communication-bound": "larger batches for each device, gradients of fewer bytes, a faster interconnect",
    "cpu-contended": "CPUs that nobody else uses (end other work, or ask for a whole node), more of them, or no more "
    "threads than there are CPUs",
    "cpu-quota-bound": "a higher CPU limit of the container (docker run --cpus=…, the pod's limits.cpu, "
    "Slurm's --cpus-per-task), or fewer threads",
}


def bottleneck(
    point: Point,
    trace: TraceAnalysis | None,
    host: HostProfile | None,
    cpu: CpuTime | None,
    unseen: str | None,
    step_s: float | None = None,
) -> Bottleneck:
    """Return the verdict by the trace; without one, by what the host was seen to do.

    `cpu` is the CPU time of the measured steps, `step_s` the seconds of a mean one; `unseen` is why there is no trace.
    """
    on_cpu = point.device == "cpu"
    if trace and trace.breakdown and not trace.failure:
        seen = trace.breakdown
        return judge(
            seconds_by_cause(seen),
            source=f"trace of {seen.steps} steps",
            kernel_s=seen.parts["kernel"] / max(1.0, seen.kernels),
            cpu=cpu,
            cpu_is_device=on_cpu,
            apart_text=apart_text(seen.step_s, step_s),
        )
    if host and host.step_thread:
        shares = shares_of_host(host.step_thread, host.cpu, on_cpu)
        return judge(shares, source=f"py-spy, for {unseen}", cpu=cpu, cpu_is_device=on_cpu)
    return Bottleneck(reason=f"{unseen}; {'; '.join(host.missing) if host else 'the host was not sampled'}", cpu=cpu)


def judge(
    time: Mapping[Cause, ArrayLike],
    *,
    source: str,
    kernel_s: float | None = None,
    cpu: CpuTime | None = None,
    cpu_is_device: bool = True,
    apart_text: str | None = None,
) -> Bottleneck:
    """Return the verdict on steps whose time is shared out so, each or all together; `source` says who saw it.

    `kernel_s` are the seconds of a mean kernel: many tiny ones are work for whoever starts them, not for the device.
    `cpu` is the time that threads waited for a CPU, and that the quota stopped them; a quota that did so for long comes
    first, for a stopped process waits longer for everything.
    """
    seconds = _steps(time)
    shares_text = f"{source}: {_in_words(seconds)}"
    kernels_text = None
    if kernel_s is not None and kernel_s < TINY_KERNEL_S and seconds["device"].any():
        kernels_text = (
            f"a kernel takes {1e6 * kernel_s:.1f} µs on average, no longer than starting it: counted as dispatch"
        )
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
    """Return the evidence with its verdict: by the causes' time, unless the CPU quota stopped the process for long."""
    whole = np.sum(list(seconds.values()), axis=0)
    stopped = evidence.cpu is not None and (evidence.cpu.stopped or 0.0) >= QUOTA_SHARE
    if not stopped and whole.sum() <= 0:
        return evidence.model_copy(update={"reason": f"{source} shows no time at all"})
    shares = shares_of(seconds)
    first, *others = sorted(CAUSES, key=lambda cause: -shares[cause])
    bounds: list[Bound] = [BOUND_OF[first]]
    if stopped:
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


def seconds_by_cause(seen: Breakdown) -> dict[Cause, Seconds]:
    """Return the seconds of each step that each cause took, or those of the mean step where there are no others."""
    found: dict[Cause, Seconds] = {}
    for part, cause in CAUSE_OF_PART.items():
        its = np.asarray(seen.of_steps.get(part, 0.0) if seen.of_steps else seen.parts[part], float)
        found[cause] = found.get(cause, np.zeros(1)) + its
    return found


def shares_of(seconds: Mapping[Cause, Seconds]) -> dict[Cause, float]:
    """Return the share of all steps together that each cause took."""
    total = sum(float(its.sum()) for its in seconds.values())
    return {cause: float(its.sum()) / total if total > 0 else 0.0 for cause, its in seconds.items()}


def share_interval(part: Seconds, whole: Seconds) -> tuple[float, float] | None:
    """Return the 95 % interval of a cause's share of steps that may depend on their neighbours; None of one step."""
    interval = ratio_interval(part, whole)
    return None if interval is None else (max(0.0, interval.low), min(1.0, interval.high))


def apart_text(seen_s: float, measured_s: float | None) -> str | None:
    """Say that a step under the profiler is not like a measured one, if they differ by more than a factor of two."""
    if not measured_s or not seen_s or 1 / APART <= seen_s / measured_s <= APART:
        return None
    return (
        f"a traced step takes {seen_s / measured_s:.1f} times a measured one "
        f"({1e3 * seen_s:.3g} ms to {1e3 * measured_s:.3g} ms): the shares may not be those of the measured steps"
    )


def quota_text(cpu: CpuTime | None) -> str | None:
    """Say for how long the CPU quota stopped the process, if it was worth a word."""
    if cpu is None or cpu.stopped is None or cpu.stopped < WORTH_A_WORD:
        return None
    return f"the CPU quota stopped the process for {cpu.stopped:.0%} of the time"


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


def _steps(time: Mapping[Cause, ArrayLike]) -> dict[Cause, Seconds]:
    """Return the seconds of each step by every cause: those that were not named took none."""
    arrays = np.broadcast_arrays(*(np.atleast_1d(np.asarray(time.get(cause, 0.0), float)) for cause in CAUSES))
    return dict(zip(CAUSES, arrays, strict=True))


def _contended(
    seconds: dict[Cause, Seconds], cpu: CpuTime | None, cpu_is_device: bool
) -> tuple[dict[Cause, Seconds], str | None]:
    """Return the seconds with those set apart in which dispatch and kernels waited for a CPU, and a sentence on them.

    A trace cannot tell a thread that runs from one that waits for a CPU: what runs on the CPU is taken to wait for the
    share of its time that all threads waited, and never for longer than one of them did. Input stays what it is, for a
    step may wait for it while no thread wants a CPU.
    """
    if cpu is None or cpu.contended <= 0:
        return seconds, None
    on_cpu: list[Cause] = ["dispatch", "device"] if cpu_is_device else ["dispatch"]
    shares = shares_of(seconds)
    stretched = sum(shares[cause] for cause in on_cpu)
    factor = min(cpu.waited, cpu.contended / stretched) if stretched > 0 else 0.0
    found = seconds | {cause: (1 - factor) * seconds[cause] for cause in on_cpu}
    found["contention"] = seconds["contention"] + factor * sum(seconds[cause] for cause in on_cpu)
    if max(factor * stretched, min(cpu.waited, cpu.contended)) < WORTH_A_WORD:
        return found, None
    return found, (
        f"threads waited {cpu.contended_s:.1f} s for a free CPU, {cpu.waited:.0%} of the time they wanted one: "
        f"{factor * stretched:.0%} of the step counts as contention"
    )


def _as_large(seconds: Mapping[Cause, Seconds], first: Cause, other: Cause, whole: Seconds) -> bool:
    """Return whether another cause is nearly as large as the first, or may be the larger by the spread of the steps."""
    gap = seconds[first] - seconds[other]
    interval = ratio_interval(gap, whole)
    return float(gap.sum() / whole.sum()) < NEAR or (interval is not None and interval.low <= 0.0)


def _in_words(seconds: Mapping[Cause, Seconds]) -> str:
    """Return the causes that took any time, the largest first, each with its interval."""
    whole = np.sum(list(seconds.values()), axis=0)
    shares = shares_of(seconds)
    words = []
    for cause in sorted((cause for cause in CAUSES if shares[cause] > 0), key=lambda cause: -shares[cause]):
        interval = share_interval(seconds[cause], whole)
        ends = f" ({100 * interval[0]:.0f} to {100 * interval[1]:.0f}%)" if interval else ""
        words.append(f"{cause} {shares[cause]:.0%}{ends}")
    return ", ".join(words) or "no time"
