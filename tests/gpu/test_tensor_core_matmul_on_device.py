"""Our tensor-core kernels on a real device: right at odd sizes, in batches, over many turns, and in a CUDA graph."""

from __future__ import annotations

import pytest

from tests.gpu.conftest import Enqueued, Prepare

pytestmark = pytest.mark.gpu

KERNELS = ("mma", "wgmma")
DTYPES = ("float16", "bfloat16")


@pytest.mark.parametrize("shape", ["1x1x1", "7x9x65", "129x257x127", "257x513x1000x3", "1024x3000x72", "40x64x50000"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_any_shape_is_multiplied_right(prepared: Prepare, kernel: str, dtype: str, shape: str) -> None:
    outcome = prepared(f"matmul.gpu_{kernel}", dtype=dtype, shape=shape).verify()
    assert outcome.passed, outcome


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_run_of_a_large_product_is_right(prepared: Prepare, kernel: str, dtype: str) -> None:
    task = prepared(f"matmul.gpu_{kernel}", dtype=dtype, n=4096)
    for _ in range(5):
        outcome = task.verify()
        assert outcome.passed, outcome


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_product_is_enqueued_on_the_stream_that_is_handed_over(
    prepared: Prepare, enqueued: Enqueued, kernel: str
) -> None:
    enqueued(prepared(f"matmul.gpu_{kernel}", dtype="bfloat16", n=512))
