"""Atomic additions by all cores, to one counter or each to its own cache line.

Bound: of `own`, the time of one locked instruction, which no other access of its core overtakes; of `one`, the time
in which a cache line travels from one core to the next.

Measured on two cores of an AMD Zen 3 virtual machine: `own` 7.7 cycles for each addition of a core; `one` 16 to 72
million additions per second by both together, 28 to 120 ns for each of a core, as the hypervisor placed them.
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
"""The number of int64 from one counter to the next: 128 bytes, as some prefetchers fetch lines in pairs."""
ADDITIONS = {"one": 1 << 16, "own": 1 << 20}
"""The additions by each thread in one execution: they take milliseconds, so that waking threads does not show."""


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
    """Prepare a counter at a random start for each thread, of which `one` uses the first."""
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
