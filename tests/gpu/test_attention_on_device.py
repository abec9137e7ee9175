"""Attention on a real device: correct for any length, with and without a mask, on the given stream."""

from __future__ import annotations

import pytest

from tests.gpu.conftest import Enqueued, Prepare

pytestmark = pytest.mark.gpu

IMPLEMENTATIONS = (("mma", "float16"), ("mma", "bfloat16"), ("vendor", "float16"))
TORCH = (("torch", "float16"), ("torch", "bfloat16"))
"""PyTorch may allocate memory during execution, which is not allowed in a capture."""


@pytest.mark.parametrize("sequence", [1, 63, 129, 1000, 4096])
@pytest.mark.parametrize("mask", ["causal", "full"])
@pytest.mark.parametrize("head", [64, 128])
@pytest.mark.parametrize(("implementation", "dtype"), IMPLEMENTATIONS + TORCH)
def test_attention_is_correct_for_any_length(
    prepared: Prepare, implementation: str, dtype: str, head: int, mask: str, sequence: int
) -> None:
    params = {"dtype": dtype, "head": head, "mask": mask, "sequence": sequence, "heads": 5}
    task = prepared(f"attention.gpu_{implementation}", **params)
    for _ in range(2):
        outcome = task.verify()
        assert outcome.passed, outcome


@pytest.mark.parametrize(("implementation", "dtype"), IMPLEMENTATIONS)
def test_attention_is_enqueued_on_the_given_stream(
    prepared: Prepare, enqueued: Enqueued, implementation: str, dtype: str
) -> None:
    params = {"dtype": dtype, "head": 64, "mask": "causal", "sequence": 1024, "heads": 16}
    enqueued(prepared(f"attention.gpu_{implementation}", **params))
