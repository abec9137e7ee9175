"""The atomic additions in Numba's CUDA simulator."""

from __future__ import annotations

import numpy as np
import pytest

from accelbench.kernels.atomics import gpu_numba as atomics

TARGETS = ("one", "warp", "own", "random", "block")
BLOCKS = 2
SMALL = 64
"""Threads of a block here: two warps."""


@pytest.mark.filterwarnings("ignore:overflow encountered")  # the generator counts modulo 2³²
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
def test_every_addition_reaches_its_counter(target: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomics, "THREADS", SMALL)
    rng = np.random.default_rng(5)
    threads = BLOCKS * SMALL
    count = 1 << atomics.RANDOM_BITS if target == "random" else threads
    start, values = (rng.integers(-7, 7, n, endpoint=True).astype(dtype) for n in (count, threads))
    seeds = rng.integers(0, 1 << 32, threads, np.uint32)
    for additions in (1, 3):
        counters = start.copy()
        atomics.KERNELS[dtype][target][BLOCKS, SMALL](counters, values, seeds, np.int32(additions))
        expected = atomics.expected_counters(target, start, values, seeds, additions)
        outcome = atomics.verify_counters(expected, counters)
        assert outcome.passed, outcome
        assert not np.array_equal(counters, start)
