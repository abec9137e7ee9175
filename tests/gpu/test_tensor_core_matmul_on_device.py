"""Tensor-core kernels on a real device: correct for odd sizes, batches, many iterations, and in a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import pytest

from accelbench.kernels.matmul.gpu_task import Bind, MatmulOperands
from accelbench.profiling.machine.nvidia.cuda import synchronize
from tests.gpu.conftest import Enqueued, Prepare

pytestmark = pytest.mark.gpu

KERNELS = ("mma", "wgmma")
DTYPES = ("float16", "bfloat16")


# Narrow and wide tiles, each for all of k and for parts of k, with and without batches.
SHAPES = (
    "1x1x1", "7x9x65", "129x257x127", "257x513x1000x3", "1024x3000x72", "40x64x50000",
    "20000x50x300", "300x900x20001", "512x8x50000", "7680x1x2560", "35x700x2048", "3x700x33x5000", "3x70x330x5000",
)  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_products_of_any_shape_are_correct(prepared: Prepare, kernel: str, dtype: str, shape: str) -> None:
    outcome = prepared(f"matmul.gpu_{kernel}", dtype=dtype, shape=shape).verify()
    assert outcome.passed, outcome


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_run_of_a_large_product_is_correct(prepared: Prepare, kernel: str, dtype: str) -> None:
    task = prepared(f"matmul.gpu_{kernel}", dtype=dtype, n=4096)
    for _ in range(5):
        outcome = task.verify()
        assert outcome.passed, outcome


@pytest.mark.parametrize("shape", ["300x900x20001", "512x8x50000", "2000x2000x2000"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_results_of_all_runs_are_equal_bit_for_bit(
    prepared: Prepare, kernel: str, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module(f"accelbench.kernels.matmul.gpu_{kernel}")
    handed: list[MatmulOperands] = []

    def bind(operands: MatmulOperands, bind: Bind = module.bind) -> Callable[[int], object]:
        handed.append(operands)
        return bind(operands)

    monkeypatch.setattr(module, "bind", bind)
    task = prepared(f"matmul.gpu_{kernel}", dtype="bfloat16", shape=shape)
    found = set()
    for _ in range(10):
        task.run()
        synchronize()
        found.add(handed[0].c.get().tobytes())
    assert len(found) == 1


@pytest.mark.parametrize("shape", ["512x512x512", "4096x4096x64", "60x8x50000"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_product_is_enqueued_on_the_given_stream(
    prepared: Prepare, enqueued: Enqueued, kernel: str, shape: str
) -> None:
    enqueued(prepared(f"matmul.gpu_{kernel}", dtype="bfloat16", shape=shape))
