"""Bandwidth and latency between the CPUs and the memory of each pair of NUMA nodes."""

from __future__ import annotations

from accelbench.profiling.benchmark import benchmark

NODES = (0, 1)
"""Nodes of a machine with two sockets; `--param` selects more."""
HIGHEST = 1023
"""Linux can be built for 1024 nodes (CONFIG_NODES_SHIFT at most 10)."""


@benchmark(
    "numa-bandwidth",
    devices=("cpu",),
    module="accelbench.kernels.numa.{device}_bandwidth",
    axes={"from": NODES, "to": NODES},
    limits={"from": (0, HIGHEST), "to": (0, HIGHEST)},
    figure="bytes",
    unbounded="it is of the path between two memory nodes, and the ceiling is of all nodes together",
)
def numa_bandwidth() -> None:
    """The rate at which all cores of the node `from` read memory of the node `to`, one thread a core."""


@benchmark(
    "numa-latency",
    devices=("cpu",),
    module="accelbench.kernels.numa.{device}_latency",
    axes={"from": NODES, "to": NODES},
    limits={"from": (0, HIGHEST), "to": (0, HIGHEST)},
    figure="time",
)
def numa_latency() -> None:
    """The time of one access from a core of the node `from` to memory of the node `to` that no cache holds."""
