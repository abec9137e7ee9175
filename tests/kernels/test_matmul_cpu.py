"""Matrix products on the CPU: correct for every size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from accelbench.kernels.lib.cpu.simd import tile_shape
from accelbench.kernels.matmul import cpu_numba, gemm, matmul
from accelbench.kernels.matmul.packing import pack_b
from accelbench.kernels.matmul.shapes import Product
from accelbench.profiling.benchmark import Skip
from accelbench.profiling.records.point import Point

IMPLS = ("vendor", "numba")
DTYPES = ("float32", "float64")


def whole_numbers(product: Product, dtype: str, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    shapes = (product.batch, product.m, product.k), (product.batch, product.k, product.n)
    a, b = (rng.integers(-8, 9, shape).astype(dtype) for shape in shapes)
    return a, b


def multiply(product: Product, a: Any, b: Any, threads: int) -> Any:
    c = np.full((product.batch, product.m, product.n), np.nan, a.dtype)
    cpu_numba.FmaMultiplier(product, a.dtype, threads)(a, b, c)
    return c


def check(product: Product, dtype: str, threads: int, seed: int = 0) -> None:
    a, b = whole_numbers(product, dtype, seed)
    np.testing.assert_array_equal(multiply(product, a, b, threads), a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@given(
    m=st.integers(1, 150), n=st.integers(1, 150), k=st.integers(1, 300), batch=st.integers(1, 14),
    threads=st.integers(1, 5), seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
@example(m=1, n=1, k=1, batch=1, threads=1, seed=0)
@example(m=257, n=257, k=257, batch=1, threads=2, seed=0)
@example(m=3, n=700, k=129, batch=1, threads=4, seed=0)
@example(m=1, n=3, k=20_000, batch=1, threads=2, seed=0)
@example(m=521, n=17, k=521, batch=1, threads=2, seed=0)
@settings(max_examples=30, deadline=None)
def test_our_kernel_multiplies_whole_numbers_exactly_at_any_size(
    dtype: str, m: int, n: int, k: int, batch: int, threads: int, seed: int
) -> None:
    check(Product(m, n, k, batch), dtype, threads, seed)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@given(
    m=st.integers(1, 90), n=st.integers(1, 16), k=st.integers(1, 90), batch=st.integers(1, 3),
    threads=st.integers(1, 5), seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
@settings(max_examples=30, deadline=None)
def test_products_with_few_columns_are_exact(
    dtype: str, m: int, n: int, k: int, batch: int, threads: int, seed: int
) -> None:
    check(Product(m, n, k, batch), dtype, threads, seed)


@pytest.mark.parametrize("dtype", DTYPES)
@given(
    rows=st.integers(1, 40), beyond=st.integers(0, 9), depth=st.integers(1, 70), columns=st.integers(1, 70),
    seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
@settings(max_examples=25, deadline=None)
def test_packed_panels_hold_the_rows_of_a_and_the_columns_of_b(
    dtype: str, rows: int, beyond: int, depth: int, columns: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    k, (mr, nr) = depth + beyond, tile_shape(np.dtype(dtype).itemsize)
    a, b = rng.standard_normal((rows, k)).astype(dtype), rng.standard_normal((k, columns)).astype(dtype)
    packed_a, packed_b = np.full(rows * k + 100 * k, np.nan, dtype), np.full(depth * nr, np.nan, dtype)
    cpu_numba.pack_block(a.reshape(-1), beyond, k, rows, depth, packed_a)
    for i in range(0, rows, mr):
        here = min(mr, rows - i)
        height = mr if here > mr // 2 else mr // 2
        panel = packed_a[i * depth : (i + height) * depth].reshape(depth, height)
        np.testing.assert_array_equal(panel[:, :here].T, a[i : i + here, beyond:])
    pack_b(b.reshape(-1), packed_b, 0, columns, beyond * columns, depth)
    width = min(nr, columns)
    np.testing.assert_array_equal(packed_b.reshape(depth, nr)[:, :width], b[beyond:, :width])


@pytest.mark.slow
@pytest.mark.parametrize("cache", [256, 4096])
@pytest.mark.parametrize("product", [Product(97, 97, 97), Product(97, 3, 97), Product(31, 29, 97, 30)], ids=str)
def test_caches_too_small_for_one_tile_change_the_blocks_and_not_the_result(
    monkeypatch: pytest.MonkeyPatch, cache: int, product: Product
) -> None:
    monkeypatch.setattr(cpu_numba, "cache_bytes", lambda level: cache)
    check(product, "float64", 2)


@given(
    m=st.integers(1, 100_000), n=st.integers(1, 100_000), k=st.integers(1, 100_000), batch=st.integers(1, 1000),
    itemsize=st.sampled_from((4, 8)), threads=st.integers(1, 256),
)  # fmt: skip
@settings(deadline=None)
def test_blocks_consist_of_complete_tiles_and_fit_in_their_caches(
    m: int, n: int, k: int, batch: int, itemsize: int, threads: int
) -> None:
    cut = cpu_numba.blocking(Product(m, n, k, batch), itemsize, threads)
    assert cut.mc % cut.mr == 0
    assert cut.nc % cut.nr == 0
    assert cut.columns % cut.nr == 0
    assert 1 <= cut.kc <= k
    panel = cut.nr * cut.kc * itemsize
    assert panel <= max(cpu_numba.cache_bytes(1), cpu_numba.cache_bytes(2) // 8)
    assert cut.mc * cut.kc * itemsize <= cpu_numba.cache_bytes(2)
    assert cut.nc * cut.kc * itemsize <= max(cpu_numba.cache_bytes(3), panel)


@given(m=st.integers(1, 5000), n=st.integers(500, 5000), threads=st.integers(1, 64))
@settings(deadline=None)
def test_every_thread_gets_a_part_of_a_product_that_has_enough_tiles(m: int, n: int, threads: int) -> None:
    cut = cpu_numba.blocking(Product(m, n, 64), 4, threads)
    whole = n if cut.separate else min(n, cut.nc)
    parts = -(-m // cut.mc) * -(-whole // cut.columns)
    assert parts >= min(threads, -(-m // cut.mr) * (whole // cut.nr))


@pytest.mark.slow
@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 127])
def test_a_prepared_point_runs_verifies_and_counts_its_work(impl: str, dtype: str, n: int) -> None:
    task = matmul(Point("matmul", "cpu", {"impl": impl, "dtype": dtype, "n": n}, seed=11))
    task.run()
    assert task.verify().passed
    assert task.work.flops == 2 * n**3
    assert task.work.bytes == 3 * n * n * np.dtype(dtype).itemsize


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("shape", ["35x70x64", "77x1x51", "200x3x5x7"])
def test_a_shape_runs_verifies_and_counts_its_work(impl: str, shape: str) -> None:
    task = gemm(Point("gemm", "cpu", {"impl": impl, "dtype": "float32", "shape": shape}, seed=11))
    assert task.verify().passed
    assert task.work.flops == Product.parse(shape).flops


@pytest.mark.parametrize("impl", IMPLS)
def test_matrices_that_do_not_fit_are_skipped_before_they_are_allocated(impl: str) -> None:
    with pytest.raises(Skip, match="of memory"):
        matmul(Point("matmul", "cpu", {"impl": impl, "dtype": "float32", "n": 10**9}))
