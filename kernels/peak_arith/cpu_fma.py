"""Empirical peak of float32 and float64 by independent chains of fused multiply-adds on vector registers.

Bound: the FMA units. Sums are loaded and stored once per 65,536 steps only, so the rate is
cores × clock × FMA units × lanes × 2.

Measured on an AMD Zen 3 core (two 256-bit units): 31.4 of 32 FLOP per cycle in float32, 15.5 of 16 in float64; every
run reports FLOP per cycle.

The sums are whole numbers small enough to be exact in every format, so results are checked bit by bit: one missing FMA
in any lane fails the check.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from accelbench.kernels.lib.cpu.clock import observed_clock
from accelbench.kernels.lib.cpu.simd import fma_chains, lanes, load, run_fma_chains
from accelbench.kernels.lib.cpu.threads import compiled, parallel, thread_count
from accelbench.kernels.peak_arith import cpu_dots
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work
from accelbench.profiling.timing.verification import verify_close

STEPS = 1 << 16
"""FMAs of each chain in one round."""
ROUNDS = 64
"""Rounds of one execution, each with its own initial sums: some 8 ms, long compared with waking the threads."""
LARGEST_FACTOR = 11
"""Largest factor: |start| + STEPS·11·11 < 2²³ + 2²³ is within 2²⁴, up to which float32 is exact for whole numbers."""
LARGEST_START = 1 << 23


@compiled
def run_rounds(sums: Any, factors: Any, steps: int, stride: int) -> None:
    """Advance every round's sums by `steps` FMAs with the two vectors in `factors`."""
    factor, other = load(factors, 0), load(factors, len(factors) // 2)
    for start in range(0, len(sums), stride):
        run_fma_chains(sums, start, factor, other, steps)


@parallel
def run_on_all(sums: Any, factors: Any, steps: int, stride: int) -> None:
    """Call `run_rounds` on every thread, with row t of `sums` and `factors` for thread t."""
    for thread in prange(len(sums)):
        run_rounds(sums[thread], factors[thread], steps, stride)


def prepare(point: Point) -> Task:
    """Prepare random whole sums and factors for each thread; narrow types are measured by `cpu_dots`."""
    if point["dtype"] not in ("float32", "float64"):
        return cpu_dots.prepare(point)
    dtype = np.dtype(str(point["dtype"]))
    threads = thread_count() if point["cores"] == "all" else 1
    width = lanes(dtype.itemsize)
    stride = fma_chains() * width
    rng = point.rng()
    sums = np.empty((threads, ROUNDS * stride), dtype)
    factors = np.empty((threads, 2 * width), dtype)

    def draw() -> None:
        sums[:] = rng.integers(-LARGEST_START, LARGEST_START, sums.shape, endpoint=True)
        factors[:] = rng.integers(1, LARGEST_FACTOR, factors.shape, endpoint=True) * rng.choice((-1, 1), factors.shape)

    def execute() -> None:
        if threads == 1:
            run_rounds(sums[0], factors[0], STEPS, stride)
        else:
            run_on_all(sums, factors, STEPS, stride)

    def run() -> None:
        # The sign of the factors alternates, so that repetition returns the sums to their initial values.
        execute()
        np.negative(factors[:, :width], out=factors[:, :width])

    def verify() -> Verification:
        draw()
        products = factors[:, :width].astype(np.float64) * factors[:, width:]
        expected = sums + STEPS * np.tile(products, ROUNDS * fma_chains())
        execute()
        return verify_close(sums, expected, 0.0, "closed form of the sum in every lane, exact in whole numbers")

    flops = threads * ROUNDS * STEPS * stride * 2

    def metrics(seconds: float) -> dict[str, Metric]:
        clock = observed_clock(threads, point.seed)
        return {
            "clock": Metric(clock / 1e6, "MHz"),
            "arithmetic per core": Metric(flops / seconds / clock / threads, "FLOP/cycle"),
            "threads": Metric(threads),
        }

    draw()
    return Task(run=run, verify=verify, work=Work(flops=flops), metrics=metrics)
