"""The matrix product in Numba's CUDA simulator: tiles, parts of k, and C of few columns or few rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.kernels.lib.gpu.numba_cuda import cuda, float32, float64
from accelbench.kernels.lib.gpu.wide_access import lanes
from accelbench.kernels.matmul import gpu_numba, gpu_task
from accelbench.kernels.matmul.accuracy import verify_product
from accelbench.kernels.matmul.gpu_numba import Kernel, tiled
from accelbench.kernels.matmul.shapes import Product
from accelbench.kernels.matmul.split import ADD_THREADS, adding_blocks, parts_of
from accelbench.kernels.matmul.thin import MOST
from accelbench.kernels.matmul.tiled import Tiling
from accelbench.profiling.records.point import Point
from tests.kernels.host_cupy import cupy

seeds = st.integers(0, 2**32 - 1)
simulated = settings(max_examples=6, deadline=None)
few = settings(max_examples=3, deadline=None)

REAL = gpu_numba.REAL
TILED = {
    "float32": tiled(float32, Tiling(32, 16, 4, 4, blocks=8)),
    "float64": tiled(float64, Tiling(16, 8, 2, 2, blocks=8)),
}
"""The kernels by type, with one warp per block."""


def multiply(kernel: Kernel, sizes: Product, dtype: str, seed: int, parts: int = 1) -> Any:
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((sizes.batch, sizes.m, sizes.k)).astype(dtype)
    b = rng.standard_normal((sizes.batch, sizes.k, sizes.n)).astype(dtype)
    c, sums = (np.full((count, sizes.batch, sizes.m, sizes.n), np.nan, dtype) for count in (1, parts))
    # As on a device, where every size of every array is padded.
    gpu_numba.launch(kernel, parts, sizes, *(array.reshape(-1) for array in (a, b, c, sums)))
    assert verify_product(a, b, c[0], dtype, rng).passed
    np.testing.assert_allclose(c[0], a.astype(np.float64) @ b, rtol=0, atol=sizes.k * 1e-5)
    return c[0]


def parts_within(kernel: Kernel, sizes: Product, most: int) -> int:
    """Return a number of parts up to `most`, none of them empty."""
    return parts_of(1, kernel.slices(sizes), most, 1)


@pytest.mark.parametrize("dtype", TILED)
@simulated
@given(
    m=st.integers(1, 40),
    wide_n=st.integers(1, 8),
    wide_k=st.integers(1, 12),
    batch=st.integers(1, 2),
    most_parts=st.integers(1, 5),
    seed=seeds,
)
def test_tiles_slices_and_parts_that_are_not_whole_change_nothing(
    dtype: str, m: int, wide_n: int, wide_k: int, batch: int, most_parts: int, seed: int
) -> None:
    wide = lanes(REAL[dtype])
    sizes = Product(m, wide_n * wide, wide_k * wide, batch)
    multiply(TILED[dtype], sizes, dtype, seed, parts_within(TILED[dtype], sizes, most_parts))


def test_bands_of_tiles_cover_c_once() -> None:
    """Ten rows of tiles, a band and a part of one, and three columns."""
    multiply(TILED["float64"], Product(9 * 16 + 1, 2 * 8 + 2, 2), "float64", 5)


@pytest.mark.parametrize("size", [0, 1], ids=["large", "small"])
@pytest.mark.parametrize("dtype", REAL)
def test_the_tiles_that_are_launched_on_a_device_multiply_beyond_one(dtype: str, size: int) -> None:
    kernel = gpu_numba.TILED[dtype][size]
    multiply(kernel, Product(kernel.rows + 1, kernel.columns + 4, kernel.depth + 4), dtype, 3)


def test_every_slice_of_the_inner_dimension_counts_once() -> None:
    kernel = TILED["float64"]
    sizes = Product(3, 4, 3 * kernel.depth + 2)
    a = np.eye(sizes.m, sizes.k, sizes.k - sizes.m)  # the last rows of B, one for each row of C
    b, c = np.random.default_rng(0).standard_normal((sizes.k, sizes.n)), np.full((sizes.m, sizes.n), np.nan)
    gpu_numba.launch(kernel, 1, sizes, a.reshape(-1), b.reshape(-1), c.reshape(-1))
    np.testing.assert_array_equal(c, b[-3:])


@pytest.mark.parametrize("dtype", REAL)
@few
@given(data=st.data(), m=st.integers(1, 70), wide_k=st.integers(1, 100), most_parts=st.integers(1, 3), seed=seeds)
def test_a_matrix_times_few_columns(
    dtype: str, data: st.DataObject, m: int, wide_k: int, most_parts: int, seed: int
) -> None:
    wide = lanes(REAL[dtype])
    kernel = data.draw(st.sampled_from(gpu_numba.FEW_COLUMNS[dtype]))
    sizes = Product(m, wide * data.draw(st.integers(1, kernel.columns // wide)), wide_k * wide, seed % 2 + 1)
    multiply(kernel, sizes, dtype, seed, parts_within(kernel, sizes, most_parts))


@pytest.mark.parametrize("dtype", REAL)
@few
@given(data=st.data(), wide_n=st.integers(1, 40), wide_k=st.integers(1, 30), most_parts=st.integers(1, 3), seed=seeds)
def test_few_rows_times_a_matrix(
    dtype: str, data: st.DataObject, wide_n: int, wide_k: int, most_parts: int, seed: int
) -> None:
    wide = lanes(REAL[dtype])
    kernel = data.draw(st.sampled_from(gpu_numba.FEW_ROWS[dtype]))
    sizes = Product(data.draw(st.integers(1, kernel.rows)), wide_n * wide, wide_k * wide, seed % 2 + 1)
    multiply(kernel, sizes, dtype, seed, parts_within(kernel, sizes, most_parts))


@pytest.mark.parametrize("dtype", REAL)
@few
@given(groups=st.integers(1, 70), parts=st.integers(1, 20), seed=seeds)
def test_parts_are_added_up_to_the_same_bits_each_time(dtype: str, groups: int, parts: int, seed: int) -> None:
    count = groups * lanes(REAL[dtype])
    sums = np.random.default_rng(seed).standard_normal((parts, count)).astype(dtype)
    found = []
    for _ in range(2):
        c = np.full(count, np.nan, dtype)
        blocks = adding_blocks(count, c.itemsize)
        gpu_numba.ADDING[dtype][blocks, ADD_THREADS](sums.reshape(-1), c, np.int64(count), np.int32(parts))
        found.append(c)
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(found[0], sums.sum(axis=0, dtype=np.float64), rtol=0, atol=parts * 1e-5)


@pytest.mark.parametrize(
    "params",
    [{"n": 1}, {"n": 7}, {"n": 20}, {"shape": "5x3x9"}, {"shape": "2x3x1x10"}, {"shape": "3x18x40"},
     {"shape": "18x17x40"}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("dtype", REAL)
def test_a_prepared_point_of_any_shape_verifies(monkeypatch: Any, prepared: Any, dtype: str, params: Any) -> None:
    monkeypatch.setattr(gpu_task, "cupy_library", lambda: cupy)
    monkeypatch.setattr(cuda, "as_cuda_array", lambda array: array.view(np.ndarray), raising=False)
    monkeypatch.setitem(gpu_numba.TILED, dtype, (replace(TILED[dtype], fewest=1),) * 2)
    task = prepared("matmul.gpu_numba", dtype=dtype, **params)
    outcome = task.verify()
    assert outcome.passed, outcome
    product = Product.of(Point("matmul", "gpu", params))
    assert (gpu_numba.workspace(dtype, product) > 0) == (min(product.m, product.n) > MOST), "whether k is split"
    assert task.work.flops == product.flops
