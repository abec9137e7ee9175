"""Atomic additions of int64 by all cores, to one shared counter or to one counter per thread.

Bound: for `own`, the latency of a locked instruction, which serialises the memory accesses of its core; for `one`, the
transfer time of a cache line from core to core.

Measured on two cores of an AMD Zen 3 virtual machine: `own` 7.7 cycles per addition of a core; `one` 16–72 million
additions per second by both cores together, that is 28–120 ns per addition of a core, depending on the placement of
the virtual CPUs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from accelbench.kernels.lib.cpu.threads import atomic_add, compiled, parallel, thread_count
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work

SPACING = 16
"""Distance between counters in elements of int64: 128 bytes, because some prefetchers fetch lines in pairs."""
ADDITIONS = {"one": 1 << 16, "own": 1 << 20}
"""Additions per thread and execution: milliseconds, so that the time to wake the threads is negligible."""


@compiled
def add_many(counters: Any, place: int, value: int, additions: int) -> None:
    for _ in range(additions):
        atomic_add(counters, place, value)


@parallel
def add_on_all(counters: Any, places: Any, values: Any, additions: int) -> None:
    """Each thread adds its value to the counter at its place."""
    for thread in prange(len(places)):
        add_many(counters, places[thread], values[thread], additions)


def prepare(point: Point) -> Task:
    """Prepare a counter with a random initial value for each thread; `one` uses only the first."""
    target, threads = str(point["target"]), thread_count()
    additions = ADDITIONS[target]
    counters = np.empty(threads * SPACING, np.int64)
    values = np.empty(threads, np.int64)
    places = np.zeros(threads, np.int64) if target == "one" else np.arange(threads) * SPACING
    rng = point.rng()

    def run() -> None:
        add_on_all(counters, places, values, additions)

    def draw() -> None:
        for array in (counters, values):
            array[:] = rng.integers(-(1 << 31), 1 << 31, array.shape)

    def verify() -> Verification:
        draw()
        expected = counters.copy()
        np.add.at(expected, places, additions * values)
        run()
        wrong = np.flatnonzero(counters != expected)
        shown = wrong[0] if wrong.size else 0
        return Verification(
            passed=wrong.size == 0,
            method="every counter, exactly",
            expected=str(expected[shown]),
            found=str(counters[shown]),
        )

    def metrics(seconds: float) -> dict[str, Metric]:
        return {"time per addition of a thread": Metric(seconds / additions, "s"), "threads": Metric(threads)}

    draw()
    work = Work(items=threads * additions, item="atomic additions")
    return Task(run=run, verify=verify, work=work, metrics=metrics)
