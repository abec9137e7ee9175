"""The verdict on what holds a training back, by where the time of its steps went, and what would help."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter

from profiling.records.bottleneck import CAUSES, Bottleneck, Bound, Cause
from profiling.records.host import HostProfile, Shares
from profiling.records.point import Point
from profiling.records.telemetry import Telemetry
from profiling.records.trace import LAUNCHING, Part, TraceAnalysis

QUOTA_SHARE = 0.25
"""The share of the quota's periods from which on a process that it stops is slowed, whatever else it waits for."""
TINY_KERNEL_S = 10e-6
"""The mean time of a kernel, in seconds, below which starting it takes as long as running it."""
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

HELP: dict[Bound, str] = {
    "device-bound": "a faster device, lower precision (--param precision=…) or compilation (--param jit_compile=on)",
    "input-bound": "more input workers (--param workers=…) and prefetching, more host cores ('accelbench cores' tells "
    "how many), or examples prepared beforehand",
    "dispatch-bound": "larger batches, fewer and larger operations, or compilation (--param jit_compile=on)",
    "transfer-bound": "fewer bytes to the device (uint8 pixels, converted there), prefetching to it, a faster link",
    "communication-bound": "larger batches for each device, gradients of fewer bytes, a faster interconnect",
    "cpu-quota-bound": "a higher CPU limit of the container (docker run --cpus=…, the pod's limits.cpu, "
    "Slurm's --cpus-per-task), or fewer threads",
}


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


def judge(
    shares: Mapping[Cause, float],
    *,
    source: str,
    kernel_s: float | None = None,
    throttled_share: float | None = None,
) -> Bottleneck:
    """Return the verdict on steps whose time is shared out so; `source` says who saw it.

    `kernel_s` are the seconds of a mean kernel: many tiny ones are work for whoever starts them, not for the device.
    `throttled_share` is the share of the CPU quota's periods in which the process was stopped; it comes first, for a
    stopped process waits longer for everything.
    """
    shares = {cause: shares.get(cause, 0.0) for cause in CAUSES}
    shares_text = f"{source}: " + ", ".join(f"{name} {share:.0%}" for name, share in _largest_first(shares))
    kernels_text = quota_text = None
    if kernel_s is not None and kernel_s < TINY_KERNEL_S and shares["device"] > 0:
        kernels_text = (
            f"a kernel takes {1e6 * kernel_s:.1f} µs on average, no longer than starting it: counted as dispatch"
        )
        shares["dispatch"] += shares["device"]
        shares["device"] = 0.0
    bound: Bound
    if throttled_share is not None and throttled_share >= QUOTA_SHARE:
        quota_text = f"the CPU quota stopped the process in {throttled_share:.0%} of its periods"
        bound = "cpu-quota-bound"
    else:
        cause, share = _largest_first(shares)[0]
        if share <= 0:
            return Bottleneck(reason=f"{source} shows no time at all", shares_text=shares_text)
        bound = f"{cause}-bound"  # type: ignore[assignment]  # the names are made so
    return Bottleneck(
        bound=bound,
        shares=shares,
        shares_text=shares_text,
        kernels_text=kernels_text,
        quota_text=quota_text,
        help=HELP[bound],
    )


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


def _largest_first(shares: Mapping[Cause, float]) -> list[tuple[Cause, float]]:
    return sorted(((name, share) for name, share in shares.items() if share > 0), key=itemgetter(1), reverse=True) or [
        ("device", 0.0)
    ]
