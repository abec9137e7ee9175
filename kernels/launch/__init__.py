"""Kernel-launch latency: the fixed cost of every kernel that a framework launches."""

from __future__ import annotations

from accelbench.profiling.benchmark import benchmark


@benchmark(
    "launch",
    devices=("gpu",),
    module="accelbench.kernels.launch.{device}_{impl}",
    axes={"mode": ("latency", "throughput", "graph")},
    metric="time",
    small={"mode": ("latency", "graph")},
)
def launch() -> None:
    """Time per launch of an empty kernel.

    `latency`: one launch and a synchronisation. `throughput`: 1,000 launches, then a synchronisation. `graph`: one
    replay of a CUDA graph of 1,000 launches, which was captured before, and a synchronisation. Timed by the host clock,
    because the host's work is measured: the launch call, the driver, and the round trip to the device.
    """
