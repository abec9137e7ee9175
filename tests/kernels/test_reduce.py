"""Sum: exact for every type and implementation, and wrong sums fail the verification."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.kernels.lib.cpu import array_task as cpu
from accelbench.kernels.lib.cpu.simd import lanes
from accelbench.kernels.lib.cpu.sums import CHAINS, sum_vectors
from accelbench.kernels.lib.cpu.threads import thread_count
from accelbench.kernels.lib.exact import LARGEST, draw, verify_sum
from accelbench.kernels.reduce import cpu_numba, reduce, reference
from accelbench.profiling.records.point import Point

DTYPES = sorted(reference.SUM_TYPE)
CHUNK = 1024
"""Elements of the smallest array: complete vectors for any number of chains."""


@pytest.fixture
def small_arrays(monkeypatch: Any) -> None:
    monkeypatch.setattr(cpu, "rows_per_array", lambda width, threads, itemsize: 10 * threads * CHUNK)


def point(impl: str, dtype: str) -> Point:
    return Point("reduce", "cpu", {"impl": impl, "dtype": dtype}, seed=7)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("impl", ["numba", "vendor"])
@pytest.mark.usefixtures("small_arrays")
def test_every_implementation_is_verified_and_reads_every_element_once(impl: str, dtype: str) -> None:
    task = reduce(point(impl, dtype))
    task.run()
    assert task.verify().passed
    threads = thread_count() if impl == "numba" else 1
    assert task.work.bytes == 10 * threads * CHUNK * np.dtype(dtype).itemsize


@settings(deadline=None, max_examples=30)
@given(
    threads=st.integers(1, 5), steps=st.integers(1, 4), dtype=st.sampled_from(DTYPES), seed=st.integers(0, 2**32 - 1)
)
def test_threads_sum_every_part_once(threads: int, steps: int, dtype: str, seed: int) -> None:
    array = np.empty(threads * steps * CHUNK, dtype)
    expected = draw(np.random.default_rng(seed), array)
    assert expected == int(array.sum(dtype=np.float64))
    assert verify_sum(expected, cpu_numba.sum_on_all(array, threads)).passed


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_each_element_counts_once_in_each_pass(dtype: str) -> None:
    step = CHAINS * lanes(np.dtype(dtype).itemsize)
    array = np.zeros(3 * step, dtype)
    for place in range(step, 2 * step):
        array[place] = place
        assert sum_vectors(array, step, 2 * step, 4) == 4 * place
        assert sum_vectors(array, 0, step, 4) == sum_vectors(array, 2 * step, 3 * step, 4) == 0
        array[place] = 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("fault", ["one element left out", "one element twice", "not written"])
@pytest.mark.usefixtures("small_arrays")
def test_a_wrong_sum_fails(dtype: str, fault: str) -> None:
    def faulty(array: Any, out: Any, threads: int) -> None:
        if fault == "not written":
            return
        place = np.flatnonzero(array)[-1]
        out[0] = float(array.sum(dtype=np.float64)) + float(array[place]) * (1 if fault == "one element twice" else -1)

    own = point("own", dtype)
    assert not cpu.array_task(own, reference.problem(own), faulty).verify().passed


def test_integers_do_not_overflow() -> None:
    array = np.full(4 * CHUNK, np.iinfo(np.int32).max, np.int32)
    assert cpu_numba.sum_on_all(array, 2) == 4 * CHUNK * np.iinfo(np.int32).max


@pytest.mark.parametrize("dtype", DTYPES)
def test_random_inputs_are_small_whole_numbers_with_their_sum(dtype: str) -> None:
    array = np.empty(100_001, dtype)
    total = draw(np.random.default_rng(3), array)
    assert total == int(array.astype(np.int64).sum())
    assert set(np.unique(array)) == set(range(-LARGEST, LARGEST + 1))
