"""Load latency by pointer chasing on one core: the address of each load is the result of the previous one.

Bound: the latency of the level that holds the working set. There is one pointer per cache line, and the lines form one
random cycle, so that no prefetcher can predict the next line. The memory is on huge pages if the kernel grants them
(few TLB misses), or on ordinary pages with `pages=small` (many TLB misses); the share of huge pages is reported.

Measured on an AMD Zen 3 virtual machine: 4.1 cycles in L1 (manual: 4), 12.0 in L2 (12), 46 for sets that just exceed L2
(L3: 46), 125–150 ns in memory. On one core of a shared Zen 4 machine: with 128 MiB 160 ns on huge and 216 ns on small
pages; with 24 and 512 KiB no difference.
"""

from __future__ import annotations

import numpy as np

from accelbench.kernels.lib.cpu.clock import observed_clock
from accelbench.kernels.lib.cpu.huge_pages import EMPTY, huge_share
from accelbench.kernels.lib.cpu.pointer_chase import LINE, STEPS, Chaser
from accelbench.profiling.benchmark import Task
from accelbench.profiling.machine.free_memory import require_memory
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric
from accelbench.profiling.records.work import Work


def prepare(point: Point) -> Task:
    """Prepare a random cycle through the working set; Skip if it needs more than half of the available memory."""
    lines = int(point["kib"]) * 1024 // LINE
    require_memory(2 * lines * LINE)  # the lines, and less than as much again for the permutation
    pointers = EMPTY[str(point.params.get("pages", "huge"))](lines * LINE // 8, np.uint64)
    chaser = Chaser(pointers, point.rng())

    def metrics(seconds: float) -> dict[str, Metric]:
        clock, huge = observed_clock(1, point.seed), huge_share(pointers)
        return {
            "cycles per access": Metric(seconds / STEPS * clock),
            "clock": Metric(clock / 1e6, "MHz"),
        } | ({} if huge is None else {"on huge pages": Metric(100 * huge, "%")})

    return Task(
        run=chaser.run,
        verify=lambda: chaser.verify(chaser.run),
        work=Work(items=STEPS, item="accesses"),
        metrics=metrics,
    )
