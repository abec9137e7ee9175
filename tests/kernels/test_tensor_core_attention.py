"""Attention on a GPU: launch sizes, and the tasks that call cuBLAS and PyTorch, on the host."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from accelbench.kernels.attention import gpu_mma, gpu_task, gpu_torch, gpu_vendor
from accelbench.kernels.attention.shape import MASKS
from accelbench.profiling.benchmark import Skip
from accelbench.profiling.records.point import Point
from tests.kernels import host_cupy

DTYPES = ("float16", "bfloat16")


@pytest.mark.parametrize("head", gpu_mma.HEADS)
def test_two_blocks_fit_the_smallest_multiprocessors(head: int) -> None:
    assert gpu_mma.shared_bytes(head) <= 99 * 1024 // 2  # 8.6, 8.9, 12.0


def point(impl: str, dtype: str, sequence: int, **params: int | str) -> Point:
    params = {"head": 64, "heads": 2, "mask": "causal", "sequence": sequence, **params}
    return Point("attention", "gpu", {"impl": impl, "dtype": dtype, **params}, seed=3)


@pytest.fixture
def on_host(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """List of the required device memory in bytes, with host memory instead of a device."""
    needed: list[int] = []
    monkeypatch.setattr(gpu_task, "cupy_library", lambda: host_cupy.cupy)
    monkeypatch.setattr(gpu_task, "require_device_memory", needed.append)
    monkeypatch.setattr(gpu_task, "synchronize", lambda: None)
    for module in (gpu_mma, gpu_vendor):
        monkeypatch.setattr(module, "cupy_stream", lambda stream: nullcontext())
        monkeypatch.setattr(module, "require_compute_capability", lambda needed, what: None)
    return needed


def multiply(handle: Any, op_a: int, op_b: int, m: int, n: int, k: int, alpha: int, *rest: int) -> None:
    """Emulate gemmStridedBatchedEx of cuBLAS for float16, with a float16 (2) or float32 (0) result and β = 0."""
    a, kind_a, lda, stride_a, b, kind_b, ldb, stride_b, beta, c, kind_c, ldc, stride_c, batch, compute, _ = rest
    assert (op_b, kind_a, kind_b, compute) == (0, 2, 2, 68)
    assert host_cupy.at(beta, 1, "float32")[0] == 0
    for i in range(batch):
        columns = m if op_a else k
        x = host_cupy.at(a + 2 * i * stride_a, lda * columns, "float16").reshape(columns, lda)[:, : k if op_a else m]
        y = host_cupy.at(b + 2 * i * stride_b, ldb * n, "float16").reshape(n, ldb)[:, :k]
        product = y.astype(np.float32) @ (x.T if op_a else x).astype(np.float32)
        dtype = {0: "float32", 2: "float16"}[kind_c]
        at = c + np.dtype(dtype).itemsize * i * stride_c
        host_cupy.at(at, ldc * n, dtype).reshape(n, ldc)[:, :m] = product * host_cupy.at(alpha, 1, "float32")[0]


@pytest.mark.parametrize(("block", "at_once"), [(gpu_vendor.BLOCK, 5), (2 * 70 * 70, 2)])
@pytest.mark.parametrize("mask", MASKS)
def test_cublas_and_array_operations_give_the_attention(
    on_host: list[int], mask: str, block: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = SimpleNamespace(cublas_handle=0)
    cupy = SimpleNamespace(
        empty=host_cupy.empty, triu=np.triu, full=np.full, exp=np.exp, cuda=SimpleNamespace(Device=lambda: device)
    )
    libraries = {"cupy": cupy, "cupy_backends.cuda.libs.cublas": SimpleNamespace(gemmStridedBatchedEx=multiply)}
    monkeypatch.setattr(gpu_vendor, "library", libraries.__getitem__)
    monkeypatch.setattr(gpu_vendor, "BLOCK", block)
    task = gpu_vendor.prepare(point("vendor", "float16", 70, heads=5, mask=mask))
    outcome = task.verify()
    assert outcome.passed, outcome
    (needed,) = on_host
    assert needed == 4 * 5 * 70 * 64 * 2 + 70 * 70 * (6 * at_once + 4 * (mask == "causal"))


@pytest.mark.needs("torch")
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_result_of_pytorch_is_checked_on_fresh_inputs(
    on_host: list[int], dtype: str, mask: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(gpu_torch, "require_compute_capability", lambda needed, what: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    task = gpu_torch.prepare(point("torch", dtype, 70, heads=5, mask=mask))
    for _ in range(2):
        outcome = task.verify()
        assert outcome.passed, outcome
    assert on_host == [5 * 5 * 70 * 64 * 2]
    stale: list[Any] = []
    attention = torch.nn.functional.scaled_dot_product_attention

    def remembered(*tensors: Any, **options: Any) -> Any:
        stale.append(attention(*tensors, **options))
        return stale[0]

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", remembered)
    task = gpu_torch.prepare(point("torch", dtype, 70, heads=5, mask=mask))
    task.run()
    assert not task.verify().passed


@pytest.mark.usefixtures("on_host")
def test_unsupported_heads_and_types_are_skipped_with_the_reason() -> None:
    with pytest.raises(Skip, match="64 and 128, not 96"):
        gpu_mma.prepare(point("mma", "float16", 70, head=96))
    with pytest.raises(Skip, match="float16, not bfloat16"):
        gpu_vendor.prepare(point("vendor", "bfloat16", 70))
