"""Pointer chase on one core: each access needs the address that the previous access has read.

Bound: the latency of whatever level holds the working set. There is one pointer per cache line, and the lines follow
one another in a random order that is a single cycle, so no prefetcher can tell the next one. The memory lies on huge
pages where the kernel grants them, so that the TLB misses little, or with `pages=small` on none, so that it misses all
the more; the share that was on huge pages is reported.

Measured on an AMD Zen 3 virtual machine: 4.1 cycles in L1 (the manual says 4), 12.0 in L2 (12), 46 at the near end of
L3 (46), 125 to 150 ns in memory. On one core of a shared Zen 4 machine, 128 MiB: 160 ns on huge pages, 216 on small
ones; 24 and 512 KiB: the same on both.
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
    """Prepare a random cycle through the working set; Skip where it takes more than half of the available memory."""
    lines = int(point["kib"]) * 1024 // LINE
    require_memory(2 * lines * LINE)  # the cycle's order, and what drawing it takes, are less than the lines
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
