"""Load latency by pointer chasing on one core of a node through the memory of another node (loop of `cache-latency`).

Bound: the latency of memory and of the path to it. The lines are on huge pages if the kernel grants them, and four
times as large as one last-level cache, so that at least three of four accesses miss it. Measured on a shared AMD Zen 4
virtual machine with one node: 153 ns. Between two nodes: not measured yet.
"""

from __future__ import annotations

import numpy as np

from accelbench.kernels.lib.cpu.caches import cache_bytes
from accelbench.kernels.lib.cpu.huge_pages import huge_empty, huge_share
from accelbench.kernels.lib.cpu.pinned import PinnedThreads
from accelbench.kernels.lib.cpu.placing import fill_on_node, share_on_node
from accelbench.kernels.lib.cpu.pointer_chase import LINE, STEPS, Chaser
from accelbench.kernels.lib.cpu.topology import route
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.free_memory import require_memory
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric
from accelbench.profiling.records.work import Work

SMALLEST = 128 << 20
"""Minimum bytes of the set, if the last-level cache is small or not listed."""


def prepare(point: Point) -> Task:
    """Prepare a random cycle in memory of the node `to`; Skip if a node does not exist."""
    way = route(int(point["from"]), int(point["to"]))
    size = max(4 * cache_bytes(3), SMALLEST) // LINE * LINE
    require_memory(2 * size)  # the lines, and less than as much again for the permutation
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
