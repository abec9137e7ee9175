"""Bandwidth and latency between the CPUs and the memory of each pair of NUMA nodes."""

from __future__ import annotations

from accelbench.profiling.benchmark import benchmark
from accelbench.profiling.records.matrix import MatrixAxes

NODES = (0, 1)
"""Nodes of a machine with two sockets; `--param` selects more."""
HIGHEST = 1023
"""Linux can be built for 1024 nodes (CONFIG_NODES_SHIFT at most 10)."""
FROM_TO = MatrixAxes(rows="from", columns="to")


@benchmark(
    "numa-bandwidth",
    devices=("cpu",),
    module="accelbench.kernels.numa.{device}_bandwidth",
    axes={"from": NODES, "to": NODES},
    limits={"from": (0, HIGHEST), "to": (0, HIGHEST)},
    metric="bytes",
    unbounded="the path between two memory nodes is measured, but the ceiling applies to all nodes together",
    matrix=FROM_TO,
)
def numa_bandwidth() -> None:
    """Read bandwidth of all cores of the node `from` for memory of the node `to`, with one thread per core."""


@benchmark(
    "numa-latency",
    devices=("cpu",),
    module="accelbench.kernels.numa.{device}_latency",
    axes={"from": NODES, "to": NODES},
    limits={"from": (0, HIGHEST), "to": (0, HIGHEST)},
    metric="time",
    matrix=FROM_TO,
)
def numa_latency() -> None:
    """Latency of an uncached load by a core of the node `from` from memory of the node `to`."""
