"""Independent chains of fused multiply-adds on vector registers.

Bound: the FMA units. Nothing is loaded or stored but once per 65,536 steps, so the rate is
cores × clock × FMA units × lanes × 2.

Measured share of the bound: an AMD Zen 3 core (2 units of 256 bits) gives 31.4 of 32 FLOP per cycle in float32 and
15.5 of 16 in float64; every run reports its own.

The sums are whole numbers small enough to be exact in every format, so the answer is checked to the last bit: one FMA
too few, in any lane, fails.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from accelbench.kernels.lib.cpu.clock import observed_clock
from accelbench.kernels.lib.cpu.simd import fma_chains, lanes, load, run_fma_chains
from accelbench.kernels.lib.cpu.threads import compiled, parallel, thread_count
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work
from accelbench.profiling.timing.verification import verify_close

STEPS = 1 << 16
"""FMAs of each chain in one round."""
ROUNDS = 64
"""Rounds of one execution, each with starting values of its own: some 8 ms, so that waking threads does not show."""
LARGEST_FACTOR = 11
"""|start| + STEPS·11·11 < 2²³ + 2²³: exact in float32, whose integers are exact up to 2²⁴."""
LARGEST_START = 1 << 23


@compiled
def run_rounds(sums: Any, factors: Any, steps: int, stride: int) -> None:
    """Advance every round's sums by `steps` FMAs with the two vectors in `factors`."""
    factor, other = load(factors, 0), load(factors, len(factors) // 2)
    for start in range(0, len(sums), stride):
        run_fma_chains(sums, start, factor, other, steps)


@parallel
def run_on_all(sums: Any, factors: Any, steps: int, stride: int) -> None:
    """Do `run_rounds` on every thread: row t of `sums` and `factors` is thread t's."""
    for thread in prange(len(sums)):
        run_rounds(sums[thread], factors[thread], steps, stride)


def prepare(point: Point) -> Task:
    """Prepare random whole starting values and factors for each thread; narrow types have a module of their own."""
    if point["dtype"] not in ("float32", "float64"):
        from accelbench.kernels.peak_arith import cpu_dots  # only narrow types need its instructions

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
        # The factors' sign is turned each time, so that repetition brings the sums back instead of ever further.
        execute()
        np.negative(factors[:, :width], out=factors[:, :width])

    def verify() -> Verification:
        draw()
        products = factors[:, :width].astype(np.float64) * factors[:, width:]
        expected = sums + STEPS * np.tile(products, ROUNDS * fma_chains())
        execute()
        return verify_close(sums, expected, 0.0, "closed form of every lane's sum, exact in whole numbers")

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
