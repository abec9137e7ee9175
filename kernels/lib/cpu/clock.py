"""The clock frequency of busy cores, measured by chains of dependent one-cycle operations."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any

import numpy as np

from accelbench.kernels.lib.cpu.threads import compiled

CLOCK_STEPS = 1 << 17
"""Steps of a chain: 2 million cycles, long compared with a timer call and short compared with a time slice."""
CLOCK_REPEATS = 100
CYCLES_PER_STEP = 16


@compiled
def integer_chain(x: Any, a: Any, b: Any, steps: int) -> Any:
    """Do 16 dependent one-cycle operations per step: eight times (x + a) xor b.

    LLVM would replace a chain of additions by one multiplication; the xor prevents this. All operands are variables,
    because newer CPUs execute the addition of a small constant in zero cycles.
    """
    for _ in range(steps):
        x = (x + a) ^ b
        x = (x + a) ^ b
        x = (x + a) ^ b
        x = (x + a) ^ b
        x = (x + a) ^ b
        x = (x + a) ^ b
        x = (x + a) ^ b
        x = (x + a) ^ b
    return x


def observed_clock(threads: int, seed: int) -> float:
    """Return the clock of the cores in hertz while `threads` of them are busy.

    It is the mean over the threads of the fastest of 100 chains, since noise can only lengthen a chain. Python threads
    are used, because threads of Numba's pool spin while they wait and disturb the measurement.
    """
    start, a, b = np.random.default_rng(seed).integers(1, 1 << 62, 3, dtype=np.uint64)
    integer_chain(start, a, b, 1)  # compile

    def shortest(_thread: int) -> float:
        best = float("inf")
        for _ in range(CLOCK_REPEATS):
            begin = perf_counter()
            integer_chain(start, a, b, CLOCK_STEPS)
            best = min(best, perf_counter() - begin)
        return best

    with ThreadPoolExecutor(threads) as pool:
        times = list(pool.map(shortest, range(threads)))
    return CLOCK_STEPS * CYCLES_PER_STEP * threads / sum(times)
