"""Matrix products on a real device: every type, every kind of shape, sizes that fill no tile."""

from __future__ import annotations

import pytest

from kernels.matmul.shapes import SHAPES, Product
from profiling.benchmark import Task
from tests.gpu.conftest import Enqueued, Prepare

pytestmark = pytest.mark.gpu


VENDOR = ("float64", "float32", "tf32", "float16", "bfloat16", "int8", "fp8")
OURS = [
    *(("numba", dtype) for dtype in ("float64", "float32")),
    *((impl, dtype) for impl in ("mma", "wgmma") for dtype in ("float16", "bfloat16")),
]
ODD = ("1x1x1", "35x70x129", "257x1x513", "1x300x65", "3x130x131x67", "2x8x8x5000")
LISTED = [shape for shape in SHAPES if Product.parse(shape).k < 10**5]
"""The deepest one draws gigabytes on the host: a matter for the benchmark itself."""


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


@pytest.mark.parametrize("n", [1, 7, 129, 1024, 2049])
@pytest.mark.parametrize(("impl", "dtype"), OURS)
def test_our_kernels_multiply_square_matrices(prepared: Prepare, impl: str, dtype: str, n: int) -> None:
    check(prepared(f"matmul.gpu_{impl}", dtype=dtype, n=n))


@pytest.mark.parametrize("shape", ODD)
@pytest.mark.parametrize(("impl", "dtype"), OURS)
def test_our_kernels_multiply_any_shape(prepared: Prepare, impl: str, dtype: str, shape: str) -> None:
    check(prepared(f"matmul.gpu_{impl}", dtype=dtype, shape=shape))


@pytest.mark.parametrize("shape", LISTED)
@pytest.mark.parametrize(
    ("impl", "dtype"), [("vendor", "float32"), ("vendor", "bfloat16"), ("numba", "float32"), ("wgmma", "bfloat16")]
)
def test_the_listed_shapes_are_multiplied(prepared: Prepare, impl: str, dtype: str, shape: str) -> None:
    check(prepared(f"matmul.gpu_{impl}", dtype=dtype, shape=shape))


@pytest.mark.parametrize("dtype", ["int8", "fp8"])
def test_cublaslt_is_enqueued_on_the_stream_that_is_handed_over(
    prepared: Prepare, enqueued: Enqueued, dtype: str
) -> None:
    enqueued(prepared("matmul.gpu_vendor", dtype=dtype, n=512))
