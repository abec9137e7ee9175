"""Reading a working set again and again: sums in vector registers, one load per addition.

Bound: the load ports, two vectors per cycle on most cores, then the path from the cache level that holds the set. The
memory lies on huge pages where the kernel grants them; the share is reported.

Measured on one core of an AMD Zen 3 virtual machine: 63.6 of 64 bytes per cycle from L1, 31.7 from L2, 24 from L3.
likwid-bench's `load_avx` in the same minutes, best of four: ours is 1.13 to 1.16 times that from L1, where its start
shows, 1.04 times from L2, 1.01 from L3 and 1.06 from memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from kernels.cache.pages import huge_empty, huge_share
from kernels.peak_arith.cpu_fma import observed_clock
from kernels.reduce.vectors import sum_vectors
from kernels.stream.cpu_numba import touch
from kernels.threads import parallel, thread_count
from profiling.benchmark import Task
from profiling.machine.free_memory import require_memory
from profiling.records.point import Point
from profiling.records.quality import Metric, Verification
from profiling.records.work import Work

READ = 256 << 20
"""Bytes that each core reads in one execution, at least: milliseconds, so that waking threads does not show."""
LARGEST = 15
"""Whole numbers up to this: their sums are exact in float64, whatever their order."""


@parallel
def sum_on_all(arrays: Any, sums: Any, passes: int) -> None:
    """Write the sum of each row of `arrays`, every thread its own."""
    for thread in prange(len(sums)):
        sums[thread] = sum_vectors(arrays[thread], 0, arrays.shape[1], passes)


def prepare(point: Point) -> Task:
    """Prepare a working set per core; Skip where they would take more than half of the available memory."""
    threads = thread_count() if point["cores"] == "all" else 1
    size = int(point["kib"]) * 1024
    require_memory(threads * size)
    passes = max(1, READ // size)
    memory = huge_empty(threads * size // 8, np.float64)
    touch(memory, 1.0, threads)  # each core its own, so that it lies in the memory next to it
    arrays = memory.reshape(threads, -1)
    sums = np.empty(threads)
    rng = point.rng()

    def run() -> None:
        if threads == 1:
            sums[0] = sum_vectors(arrays[0], 0, arrays.shape[1], passes)
        else:
            sum_on_all(arrays, sums, passes)

    def draw() -> None:
        for row in arrays:
            row[:] = rng.integers(-LARGEST, LARGEST, row.shape, np.int8, endpoint=True)
        sums.fill(np.nan)

    def verify() -> Verification:
        draw()
        run()
        expected = [passes * int(row.sum()) for row in arrays]
        return Verification(
            passed=bool(np.array_equal(sums, expected)),
            method="each core's sum of whole numbers, exactly",
            expected=str(sum(expected)),
            found=f"{sums.sum():.17g}",
        )

    def metrics(seconds: float) -> dict[str, Metric]:
        clock, huge = observed_clock(threads, point.seed), huge_share(arrays)
        return {
            "bytes per cycle per core": Metric(passes * size / seconds / clock, "B"),
            "clock": Metric(clock / 1e6, "MHz"),
            "threads": Metric(threads),
        } | ({} if huge is None else {"on huge pages": Metric(100 * huge, "%")})

    draw()
    return Task(run=run, verify=verify, work=Work(bytes=threads * passes * size), metrics=metrics)
