"""Read bandwidth from the memory of one node to all cores of another, by vector sums with one thread per core.

Bound: the memory channels of the node that is read or, between two nodes, the links of their sockets. Each thread reads
its part once per execution, and all parts together are four times the last-level caches, as in `stream`. Measured on
two cores of a shared AMD Zen 4 virtual machine with one node: 52 GB/s. Between two nodes: not measured yet.
"""

from __future__ import annotations

import numpy as np

from accelbench.kernels.lib.cpu.arrays import elements_per_array
from accelbench.kernels.lib.cpu.huge_pages import huge_empty
from accelbench.kernels.lib.cpu.pinned import PinnedThreads
from accelbench.kernels.lib.cpu.placing import fill_on_node, share_on_node
from accelbench.kernels.lib.cpu.sums import sum_vectors
from accelbench.kernels.lib.cpu.topology import route
from accelbench.kernels.lib.exact import draw as draw_whole
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.free_memory import require_memory
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work


def prepare(point: Point) -> Task:
    """Prepare memory on the node `to` and threads on the node `from`; Skip if a node does not exist."""
    way = route(int(point["from"]), int(point["to"]))
    count = len(way.cpus)
    length = elements_per_array(8, count)
    require_memory(8 * length)
    memory = huge_empty(length, np.float64)
    fill_on_node(memory, 1.0, way)
    parts = memory.reshape(count, -1)
    threads, sums, rng = PinnedThreads(way.cpus), np.empty(count), point.rng()

    def add_up(thread: int) -> None:
        sums[thread] = sum_vectors(parts[thread], 0, parts.shape[1], 1)

    def run() -> None:
        threads.run(add_up)

    def draw() -> None:
        for part in parts:
            draw_whole(rng, part)
        sums.fill(np.nan)

    def verify() -> Verification:
        draw()
        run()
        expected = [int(part.sum()) for part in parts]
        return Verification(
            passed=bool(np.array_equal(sums, expected)),
            method="exact sum of whole numbers on each core",
            expected=str(sum(expected)),
            found=f"{sums.sum():.17g}",
        )

    share = share_on_node(memory, way.to)
    metrics = {"array": Metric(memory.nbytes / 2**20, "MiB"), "threads": Metric(count)}
    metrics |= {} if way.distance is None else {"distance": Metric(way.distance)}
    metrics |= {} if share is None else {"on the node": Metric(100 * share, "%")}
    draw()
    return Task(run=run, verify=verify, work=Work(bytes=memory.nbytes), metrics=lambda _seconds: metrics)
