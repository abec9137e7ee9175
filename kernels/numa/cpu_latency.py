"""Pointer chase by one core of a node through another node's memory, with the loop of `cache-latency`.

Bound: the latency of memory and of the way to it. The lines lie on huge pages where the kernel grants them, and are
four times what one last-level cache holds, so that three accesses of four at least find nothing there. Measured on a
shared AMD Zen 4 virtual machine with one node: 153 ns within it. Between two nodes it has not been measured: the
machines at hand had one.
"""

from __future__ import annotations

import numpy as np

from accelbench.kernels.lib.cpu.caches import cache_bytes
from accelbench.kernels.lib.cpu.huge_pages import huge_empty, huge_share
from accelbench.kernels.lib.cpu.pointer_chase import LINE, STEPS, Chaser
from accelbench.kernels.numa.pinned import PinnedThreads
from accelbench.kernels.numa.placing import fill_on_node, share_on_node
from accelbench.kernels.numa.topology import route
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.free_memory import require_memory
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric
from accelbench.profiling.records.work import Work

SMALLEST = 128 << 20
"""Bytes of the set where the last-level cache is small, or is not listed."""


def prepare(point: Point) -> Task:
    """Prepare a random cycle in memory of the node `to`; Skip where there is no such node."""
    way = route(int(point["from"]), int(point["to"]))
    size = max(4 * cache_bytes(3), SMALLEST) // LINE * LINE
    require_memory(2 * size)  # the cycle's order, and what drawing it takes, are less than the lines
    pointers = huge_empty(size // 8, np.uint64)
    fill_on_node(pointers, 0, way)
    chaser, thread = Chaser(pointers, point.rng()), PinnedThreads(way.cpus[:1])

    def run() -> None:
        thread.run(lambda _thread: chaser.run())

    shares = {"on the node": share_on_node(pointers, way.to), "on huge pages": huge_share(pointers)}
    metrics = {"set": Metric(size / 2**20, "MiB"), "CPU": Metric(way.cpus[0])}
    metrics |= {} if way.distance is None else {"distance": Metric(way.distance)}
    metrics |= {name: Metric(100 * share, "%") for name, share in shares.items() if share is not None}
    return Task(
        run=run,
        verify=lambda: chaser.verify(run),
        work=Work(items=STEPS, item="accesses"),
        metrics=lambda _seconds: metrics,
    )
