"""Matrix products on the CPU: right at every size, and wrong ones are found out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kernels.matmul import cpu_numba, matmul
from kernels.matmul.accuracy import verify_product
from profiling.benchmark import Point, Skip

IMPLS = ("vendor", "numba")
DTYPES = ("float32", "float64")


def point(impl, dtype, n):
    return Point("matmul", "cpu", {"impl": impl, "dtype": dtype, "n": n}, seed=11)


def multiply(a, b, threads):
    c = np.full_like(a, np.nan)
    cpu_numba.Multiplier(len(a), a.dtype, threads)(a, b, c)
    return c


@pytest.mark.parametrize("dtype", DTYPES)
@given(n=st.integers(1, 150), threads=st.integers(1, 5), seed=st.integers(0, 2**32 - 1))
@example(n=1, threads=1, seed=0)
@example(n=257, threads=2, seed=0)
@example(n=263, threads=3, seed=0)
@example(n=521, threads=2, seed=0)
@settings(max_examples=40, deadline=None)
def test_our_kernel_multiplies_whole_numbers_exactly_at_any_size(dtype, n, threads, seed):
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-8, 9, (n, n)).astype(dtype) for _ in range(2))
    np.testing.assert_array_equal(multiply(a, b, threads), a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.parametrize("cache", [256, 4096])
def test_caches_too_small_for_one_tile_change_the_blocks_and_not_the_answer(monkeypatch, cache):
    monkeypatch.setattr(cpu_numba, "cache_bytes", lambda level: cache)
    a, b = (np.random.default_rng(2).integers(-8, 9, (97, 97)).astype("float64") for _ in range(2))
    np.testing.assert_array_equal(multiply(a, b, 2), a @ b)


@given(n=st.integers(1, 100_000), itemsize=st.sampled_from((4, 8)), threads=st.integers(1, 256))
@settings(deadline=None)
def test_blocks_are_whole_tiles_that_fit_their_caches(n, itemsize, threads):
    cut = cpu_numba.blocking(n, itemsize, threads)
    assert cut.mc % cut.mr == 0
    assert cut.nc % cut.nr == 0
    assert 1 <= cut.kc <= n
    assert cut.kc * cut.nr * itemsize <= cpu_numba.cache_bytes(1)
    assert cut.mc * cut.kc * itemsize <= cpu_numba.cache_bytes(2)
    assert cut.nc * cut.kc * itemsize <= cpu_numba.cache_bytes(3)


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 127])
def test_a_prepared_point_runs_verifies_and_counts_its_work(impl, dtype, n):
    task = matmul(point(impl, dtype, n))
    task.run()
    assert task.verify().passed
    assert task.work.flops == 2 * n**3
    assert task.work.bytes == 3 * n * n * np.dtype(dtype).itemsize


@pytest.mark.parametrize("impl", IMPLS)
def test_matrices_that_do_not_fit_are_skipped_before_they_are_allocated(impl):
    with pytest.raises(Skip, match=r"needs .* of memory; half of the available"):
        matmul(point(impl, "float32", 10**9))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "fault", ["poisoned", "transposed", "one element wrong", "one element unwritten", "a row off by one"]
)
def test_a_wrong_product_fails(dtype, fault):
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal((129, 129)).astype(dtype) for _ in range(2))
    c = a @ b
    assert verify_product(a, b, c, dtype, rng).passed
    if fault == "poisoned":
        c[:] = np.nan
    elif fault == "transposed":
        c = c.T.copy()
    elif fault == "one element wrong":
        c[64, 3] += 0.1
    elif fault == "one element unwritten":
        c[128, 128] = np.nan
    else:
        c[1:] = c[:-1].copy()
    assert not verify_product(a, b, c, dtype, rng).passed
