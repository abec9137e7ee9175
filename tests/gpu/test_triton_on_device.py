"""Kernels in Triton on a real device: correct for every type and any size, on the given stream."""

from __future__ import annotations

from typing import Any

import pytest

from accelbench.kernels.matmul.gpu_triton import TYPES
from tests.gpu.conftest import Enqueued, Prepare

pytestmark = [pytest.mark.gpu, pytest.mark.needs("triton")]

ATTENTION = {"dtype": "bfloat16", "head": 128, "mask": "causal", "sequence": 1000, "heads": 5}
CASES: list[tuple[str, dict[str, Any]]] = [
    *(("matmul", {"dtype": dtype, "n": n}) for dtype in TYPES for n in (9, 1000, 4096)),
    *(("norm", {"width": width}) for width in (1, 1001, 8192, 20001)),
    *(("softmax_xent", {"vocabulary": width}) for width in (1, 32_000, 50_257)),
    *(("attention", {**ATTENTION, "mask": mask, "head": head}) for mask in ("causal", "full") for head in (64, 128)),
    *(("attention", {**ATTENTION, "dtype": "float16", "sequence": sequence}) for sequence in (1, 63, 4096)),
]


@pytest.mark.parametrize(("name", "params"), CASES)
def test_every_kernel_is_correct_and_enqueued_on_the_given_stream(
    prepared: Prepare, enqueued: Enqueued, name: str, params: dict[str, Any]
) -> None:
    task = prepared(f"{name}.gpu_triton", **params)
    enqueued(task)
    outcome = task.verify()
    assert outcome.passed, outcome


@pytest.mark.parametrize("shape", ["512x8x50000", "70x150x90x70", "1760x7133x1760"])
@pytest.mark.parametrize("dtype", TYPES)
def test_every_shape_is_correct(prepared: Prepare, dtype: str, shape: str) -> None:
    outcome = prepared("matmul.gpu_triton", dtype=dtype, shape=shape).verify()
    assert outcome.passed, outcome
