"""The matrix product in Numba's CUDA simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.matmul import gpu_numba, gpu_task
from kernels.matmul.accuracy import verify_product
from kernels.matmul.gpu_numba import Tiling
from kernels.matmul.shapes import Product
from kernels.numba_cuda import cuda, float32, float64
from kernels.wide_access import lanes
from profiling.benchmark import Point
from tests.kernels.host_cupy import cupy

seeds = st.integers(0, 2**32 - 1)
simulated = settings(max_examples=12, deadline=None)

SMALL = {"float32": (float32, Tiling(32, 16, 4, 4)), "float64": (float64, Tiling(16, 8, 2, 2))}
"""One warp per block."""


def multiply(kernel: Any, tiling: Tiling, sizes: Product, dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((sizes.batch, sizes.m, sizes.k)).astype(dtype)
    b = rng.standard_normal((sizes.batch, sizes.k, sizes.n)).astype(dtype)
    c = np.full((sizes.batch, sizes.m, sizes.n), np.nan, dtype)
    gpu_numba.launch(kernel, tiling, sizes, a.reshape(-1), b.reshape(-1), c.reshape(-1))
    assert verify_product(a, b, c, dtype, rng).passed
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=0, atol=sizes.k * 1e-5)


@pytest.mark.parametrize("dtype", SMALL)
@simulated
@given(
    m=st.integers(1, 40), wide_n=st.integers(1, 8), wide_k=st.integers(1, 12), batch=st.integers(1, 2), seed=seeds
)  # fmt: skip
def test_tiles_and_slices_that_are_not_whole_change_nothing(
    dtype: str, m: int, wide_n: int, wide_k: int, batch: int, seed: int
) -> None:
    real, tiling = SMALL[dtype]
    sizes = Product(m, wide_n * lanes(real), wide_k * lanes(real), batch)
    multiply(gpu_numba.compile_kernel(real, tiling), tiling, sizes, dtype, seed)


@pytest.mark.parametrize("dtype", SMALL)
def test_the_kernels_that_are_launched_on_a_device_multiply_beyond_one_tile(dtype: str) -> None:
    tiling = gpu_numba.TILINGS[dtype]
    sizes = Product(tiling.rows + 1, tiling.columns + 4, gpu_numba.DEPTH + 4)
    multiply(gpu_numba.KERNELS[dtype], tiling, sizes, dtype, 3)


def test_every_slice_of_the_inner_dimension_counts_once() -> None:
    real, tiling = SMALL["float64"]
    sizes = Product(3, 4, 3 * gpu_numba.DEPTH + 2)
    a = np.eye(sizes.m, sizes.k, sizes.k - sizes.m)  # the last rows of B, one for each row of C
    b, c = np.random.default_rng(0).standard_normal((sizes.k, sizes.n)), np.full((sizes.m, sizes.n), np.nan)
    kernel = gpu_numba.compile_kernel(real, tiling)
    gpu_numba.launch(kernel, tiling, sizes, a.reshape(-1), b.reshape(-1), c.reshape(-1))
    np.testing.assert_array_equal(c, b[-3:])


@pytest.mark.parametrize(
    "params", [{"n": 1}, {"n": 7}, {"shape": "5x3x9"}, {"shape": "2x3x1x10"}, {"shape": "1x1x40"}], ids=str
)
@pytest.mark.parametrize("dtype", SMALL)
def test_a_prepared_point_of_any_shape_verifies(monkeypatch: Any, prepared: Any, dtype: str, params: Any) -> None:
    monkeypatch.setattr(gpu_task, "library", lambda name: cupy)
    monkeypatch.setattr(cuda, "as_cuda_array", lambda array: array.view(np.ndarray), raising=False)
    real, tiling = SMALL[dtype]
    monkeypatch.setitem(gpu_numba.TILINGS, dtype, tiling)
    monkeypatch.setitem(gpu_numba.KERNELS, dtype, gpu_numba.compile_kernel(real, tiling))
    task = prepared("matmul.gpu_numba", dtype=dtype, **params)
    outcome = task.verify()
    assert outcome.passed, outcome
    product = Product.of(Point("matmul", "gpu", params))
    assert task.work.flops == product.flops
