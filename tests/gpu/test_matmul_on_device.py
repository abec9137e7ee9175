"""Matrix products on a real device: every type, every kind of shape, sizes that are no multiple of a tile."""

from __future__ import annotations

import pytest

from accelbench.kernels.matmul import BLOCK_SCALED
from accelbench.kernels.matmul.shapes import SHAPES, Product
from accelbench.profiling.benchmark import Task
from tests.gpu.conftest import Enqueued, Prepare

pytestmark = pytest.mark.gpu


VENDOR = ("float64", "float32", "tf32", "float16", "bfloat16", "int8", "fp8")
OURS = [
    *(("numba", dtype) for dtype in ("float64", "float32")),
    *((impl, dtype) for impl in ("mma", "wgmma") for dtype in ("float16", "bfloat16")),
]
ODD = ("1x1x1", "35x70x129", "257x1x513", "1x300x65", "3x130x131x67", "2x8x8x5000")
LISTED = [shape for shape in SHAPES if Product.parse(shape).k < 10**5]
"""Listed shapes without the deepest one, which needs gigabytes of random numbers on the host."""


def check(task: Task) -> None:
    outcome = task.verify()
    assert outcome.passed, outcome


@pytest.mark.parametrize("n", [1, 31, 1024, 2049])
@pytest.mark.parametrize("dtype", VENDOR)
def test_cublas_multiplies_square_matrices(prepared: Prepare, dtype: str, n: int) -> None:
    check(prepared("matmul.gpu_vendor", dtype=dtype, n=n))


@pytest.mark.parametrize("shape", ODD)
@pytest.mark.parametrize("dtype", VENDOR)
def test_cublas_multiplies_any_shape(prepared: Prepare, dtype: str, shape: str) -> None:
    check(prepared("matmul.gpu_vendor", dtype=dtype, shape=shape))


@pytest.mark.parametrize("n", [1, 31, 1024, 2049])
@pytest.mark.parametrize("dtype", BLOCK_SCALED)
def test_cublaslt_multiplies_block_scaled_matrices(prepared: Prepare, dtype: str, n: int) -> None:
    check(prepared("matmul.gpu_vendor", dtype=dtype, n=n))


@pytest.mark.parametrize("n", [1, 7, 129, 1024, 2049])
@pytest.mark.parametrize(("impl", "dtype"), OURS)
def test_our_kernels_multiply_square_matrices(prepared: Prepare, impl: str, dtype: str, n: int) -> None:
    check(prepared(f"matmul.gpu_{impl}", dtype=dtype, n=n))


@pytest.mark.parametrize("shape", ODD)
@pytest.mark.parametrize(("impl", "dtype"), OURS)
def test_our_kernels_multiply_any_shape(prepared: Prepare, impl: str, dtype: str, shape: str) -> None:
    check(prepared(f"matmul.gpu_{impl}", dtype=dtype, shape=shape))


@pytest.mark.parametrize("shape", ["512x8x50000", "100x16x3001", "7x5x20000", "3x2000x4099", "16x513x9000"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_our_kernels_for_few_columns_or_rows_multiply(prepared: Prepare, dtype: str, shape: str) -> None:
    check(prepared("matmul.gpu_numba", dtype=dtype, shape=shape))


@pytest.mark.parametrize("shape", ["100x90x20001", "130x257x3000", "3x33x40x9000"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_our_kernels_add_up_the_parts_of_a_deep_product(prepared: Prepare, dtype: str, shape: str) -> None:
    check(prepared("matmul.gpu_numba", dtype=dtype, shape=shape))


@pytest.mark.parametrize("shape", ["300x300x300", "512x8x50000", "100x90x20001"])
def test_our_kernels_are_enqueued_on_the_given_stream(prepared: Prepare, enqueued: Enqueued, shape: str) -> None:
    enqueued(prepared("matmul.gpu_numba", dtype="float32", shape=shape))


@pytest.mark.parametrize("shape", LISTED)
@pytest.mark.parametrize(
    ("impl", "dtype"), [("vendor", "float32"), ("vendor", "bfloat16"), ("numba", "float32"), ("wgmma", "bfloat16")]
)
def test_the_listed_shapes_are_multiplied(prepared: Prepare, impl: str, dtype: str, shape: str) -> None:
    check(prepared(f"matmul.gpu_{impl}", dtype=dtype, shape=shape))


@pytest.mark.parametrize("dtype", ["int8", "fp8"])
def test_cublaslt_is_enqueued_on_the_given_stream(prepared: Prepare, enqueued: Enqueued, dtype: str) -> None:
    enqueued(prepared("matmul.gpu_vendor", dtype=dtype, n=512))
