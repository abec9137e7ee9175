"""Attention on a real device: right at any length, with and without a mask, and on the stream that is handed over."""

from __future__ import annotations

import pytest

from tests.gpu.conftest import Enqueued, Prepare

pytestmark = pytest.mark.gpu

IMPLEMENTATIONS = (("mma", "float16"), ("mma", "bfloat16"), ("vendor", "float16"))
TORCH = (("torch", "float16"), ("torch", "bfloat16"))
"""PyTorch may ask for memory as it runs, which a stream that is being captured does not allow."""


@pytest.mark.parametrize("sequence", [1, 63, 129, 1000, 4096])
@pytest.mark.parametrize("mask", ["causal", "full"])
@pytest.mark.parametrize("head", [64, 128])
@pytest.mark.parametrize(("implementation", "dtype"), IMPLEMENTATIONS + TORCH)
def test_heads_of_any_length_are_attended_to(
    prepared: Prepare, implementation: str, dtype: str, head: int, mask: str, sequence: int
) -> None:
    params = {"dtype": dtype, "head": head, "mask": mask, "sequence": sequence, "heads": 5}
    task = prepared(f"attention.gpu_{implementation}", **params)
    for _ in range(2):
        outcome = task.verify()
        assert outcome.passed, outcome


@pytest.mark.parametrize(("implementation", "dtype"), IMPLEMENTATIONS)
def test_attention_is_enqueued_on_the_stream_that_is_handed_over(
    prepared: Prepare, enqueued: Enqueued, implementation: str, dtype: str
) -> None:
    params = {"dtype": dtype, "head": 64, "mask": "causal", "sequence": 1024, "heads": 16}
    enqueued(prepared(f"attention.gpu_{implementation}", **params))
