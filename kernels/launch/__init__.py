"""Kernel-launch latency: the fixed cost of each kernel of a framework."""

from __future__ import annotations

from accelbench.profiling.benchmark import benchmark


@benchmark(
    "launch",
    devices=("gpu",),
    module="accelbench.kernels.launch.{device}_{impl}",
    axes={"mode": ("latency", "throughput", "graph")},
    figure="time",
    small={"mode": ("latency", "graph")},
)
def launch() -> None:
    """Time of launching an empty kernel: one and wait for it, a thousand back to back, or a graph of a thousand.

    Timed by the host clock, since what is measured is the host's work: the launch itself, the driver, and for
    `latency` the way to the device and back. A `graph` is captured before it is timed, and then replayed by a single
    call. The figure is the time of one launch, the way back included.
    """
