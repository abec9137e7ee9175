"""Bandwidth of repeated reads, writes or copies of a working set with the widest vectors (loops: `cpu_operations`).

Bound: the load and store ports for L1, the path from the cache level that holds the set for the others. The memory is
on huge pages if the kernel grants them; their share is reported. Stores are ordinary ones: outside of the caches a line
is read before it is written, which is not counted (`stream` measures memory with non-temporal stores).

Measured on one core of an AMD Zen 3 virtual machine: reads of 63.6 of 64 bytes per cycle from L1, 31.7 from L2, 24 from
L3. On one core of a shared Zen 4 machine, compared with likwid-bench's `load_avx512`, `store_avx512` and `copy_avx512`
(`make bench-self PART=caches`): 1.07–1.42× in L1, L2 and L3 (our medians, likwid-bench's means), 1.36–1.65× in memory.
The best of 30 copies in L1 was 1.02× likwid-bench's best of five.
"""

from __future__ import annotations

import numpy as np

from accelbench.kernels.cache.cpu_operations import OPERATIONS, CacheOperation
from accelbench.kernels.lib.cpu.arrays import touch
from accelbench.kernels.lib.cpu.clock import observed_clock
from accelbench.kernels.lib.cpu.huge_pages import huge_empty, huge_share
from accelbench.kernels.lib.cpu.threads import thread_count
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.free_memory import require_memory
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work

MOVED = 256 << 20
"""Minimum bytes per core and execution: milliseconds, so that the time to wake the threads is negligible."""


def prepare(point: Point) -> Task:
    """Prepare a working set per core; Skip if they need more than half of the available memory."""
    threads = thread_count() if point["cores"] == "all" else 1
    size = int(point["kib"]) * 1024
    require_memory(threads * size)
    passes = max(1, MOVED // size)
    memory = huge_empty(threads * size // 8, np.float64)
    touch(memory, 1.0, threads)  # each core touches its own set, so that it is on the core's memory node
    arrays = memory.reshape(threads, -1)
    operation: CacheOperation = OPERATIONS[str(point.params.get("op", "read"))](arrays)
    rng = point.rng()

    def run() -> None:
        operation.run(passes)

    def verify() -> Verification:
        operation.draw(rng)
        run()
        return operation.verify(passes)

    def metrics(seconds: float) -> dict[str, Metric]:
        clock, huge = observed_clock(threads, point.seed), huge_share(arrays)
        return {
            "bytes per cycle per core": Metric(passes * size / seconds / clock, "B"),
            "clock": Metric(clock / 1e6, "MHz"),
            "threads": Metric(threads),
        } | ({} if huge is None else {"on huge pages": Metric(100 * huge, "%")})

    operation.draw(rng)
    return Task(run=run, verify=verify, work=Work(bytes=threads * passes * size), metrics=metrics)
