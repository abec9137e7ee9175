"""Attention on the CPU: correct for any size, and wrong results fail the verification."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from accelbench.kernels.attention import accuracy, attention, cpu_numba, cpu_task, cpu_vendor
from accelbench.kernels.attention.accuracy import verify_attention
from accelbench.kernels.attention.shape import MASKS, Attention
from accelbench.profiling.benchmark import Skip
from accelbench.profiling.records.point import Point

FLOAT32 = np.dtype("float32")


def point(impl: str, **params: int | str) -> Point:
    params = {"dtype": "float32", "heads": 2, "mask": "causal", **params}
    return Point("attention", "cpu", {"impl": impl, **params}, seed=7)


def drawn(size: Attention, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(size.shape, np.float32) for _ in range(3)]


@pytest.mark.parametrize("impl", ["numba", "vendor", pytest.param("torch", marks=pytest.mark.needs("torch"))])
@pytest.mark.parametrize("mask", MASKS)
def test_a_prepared_point_runs_verifies_and_counts_its_work(impl: str, mask: str) -> None:
    task = attention(point(impl, sequence=130, head=64, mask=mask))
    task.run()
    outcome = task.verify()
    assert outcome.passed, outcome
    assert task.work.flops == 2 * 2 * (2 * 130 * 130 * 64) // (2 if mask == "causal" else 1)
    assert task.work.bytes == 4 * 4 * (2 * 130 * 64)


@settings(deadline=None, max_examples=40)
@given(
    heads=st.integers(1, 3),
    sequence=st.integers(1, 40) | st.integers(1, 400),
    head=st.integers(1, 20) | st.sampled_from([32, 64, 127, 128, 129]),
    causal=st.booleans(),
    threads=st.integers(1, 3),
    order=st.sampled_from(["random", "rising", "falling"]),
    seed=st.integers(0, 2**32 - 1),
)
@example(heads=1, sequence=cpu_numba.KEYS + 1, head=64, causal=True, threads=2, order="rising", seed=0)
def test_heads_of_any_size_are_correct_and_nothing_beyond_is_written(
    heads: int, sequence: int, head: int, causal: bool, threads: int, order: str, seed: int
) -> None:
    size = Attention(heads, sequence, head, causal)
    q, k, v = drawn(size, seed)
    if order != "random":  # monotonic scores, so that the maximum may grow in every block
        k[:] = np.sort(k[:, :, :1], axis=1)[:, :: 1 if order == "rising" else -1]
        q[:] = np.abs(q)
    whole = np.full(q.size + 64, np.nan, np.float32)
    o = whole[: q.size].reshape(size.shape)
    cpu_numba.Attender(size, FLOAT32, threads)(q, k, v, o)
    outcome = verify_attention(q, k, v, o, causal=causal)
    assert outcome.passed, outcome
    assert np.isnan(whole[q.size :]).all()


BLOCK = 32


def online(fault: str, q: Any, k: Any, v: Any, o: Any) -> None:
    """Write attention by online softmax in float64, rounded at the end, with an injected fault."""
    sequence, head = q.shape[1:]
    scale = {"without the scale": 1.0, "the scale of another head": 1 / math.sqrt(2 * head)}
    top = np.full(q.shape[:2], -np.inf)
    total, sums = np.zeros(q.shape[:2]), np.zeros(q.shape)
    ends = sequence - BLOCK if fault == "the last block of keys left out" else sequence
    for k0 in range(0, ends, BLOCK):
        keys = np.arange(k0, min(k0 + BLOCK, sequence))
        scores = q.astype(np.float64) @ k[:, keys].swapaxes(1, 2) * scale.get(fault, 1 / math.sqrt(head))
        shift = {"the mask one key too far": 1, "the mask one key too near": -1}.get(fault, 0)
        hidden = keys > np.arange(sequence)[:, None] + shift
        if shift < 0:
            hidden[0, 0] = k0 > 0
        if fault != "without the mask":
            scores[:, hidden] = -np.inf
        higher = np.maximum(top, scores.max(axis=2))
        factor = np.exp(top - higher)
        weights = np.exp(scores - higher[:, :, None])
        total = total * (1 if fault == "the sum not rescaled" else factor) + weights.sum(axis=2)
        sums = sums * (1 if fault == "the output not rescaled" else factor[:, :, None]) + weights @ v[:, keys]
        top = higher
    o[:] = sums if fault == "not divided by the sum" else sums / total[:, :, None]
    if fault == "one element not written":
        o[-1, 3, 1] = np.nan
    elif fault == "two heads exchanged":
        o[:] = o[::-1].copy()


FAULTS = (
    "without the mask",
    "the mask one key too far",
    "the mask one key too near",
    "without the scale",
    "the scale of another head",
    "the sum not rescaled",
    "the output not rescaled",
    "not divided by the sum",
    "the last block of keys left out",
    "one element not written",
    "two heads exchanged",
)


def verified(fault: str, monkeypatch: pytest.MonkeyPatch, checked: int) -> bool:
    monkeypatch.setattr(accuracy, "CHECKED", checked)
    task = cpu_task.cpu_task(
        point("own", sequence=200, head=64), lambda size, dtype: lambda *given: online(fault, *given), lambda size: 0
    )
    return bool(task.verify().passed)


@pytest.mark.parametrize("checked", [accuracy.CHECKED, 2 * 200 * 40], ids=["every row", "some rows"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_attention_fails(fault: str, checked: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not verified(fault, monkeypatch, checked)


@pytest.mark.parametrize("checked", [accuracy.CHECKED, 2 * 200 * 40], ids=["every row", "some rows"])
def test_the_same_without_a_fault_passes(checked: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert verified("none", monkeypatch, checked)


@given(heads=st.integers(1, 1 << 14), sequence=st.integers(1, 1 << 17), seed=st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_the_rows_that_are_checked_are_few_enough_and_the_last_is_among_them(
    heads: int, sequence: int, seed: int
) -> None:
    rows = accuracy.rows_to_check(heads, sequence, np.random.default_rng(seed))
    assert rows[-1] == sequence - 1
    assert np.all(np.diff(rows) > 0)
    assert len(rows) == 1 or heads * len(rows) * sequence <= accuracy.CHECKED
    assert len(rows) == sequence or heads * (len(rows) + 1) * sequence > accuracy.CHECKED


def test_a_block_of_heads_that_is_the_last_may_be_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_vendor, "BLOCK", 2 * 50**2)
    size = Attention(5, 50, 16)
    assert size.heads_within(cpu_vendor.BLOCK) == 2
    q, k, v = drawn(size, 3)
    o = np.full_like(q, np.nan)
    cpu_vendor.attender(size, FLOAT32)(q, k, v, o)
    assert verify_attention(q, k, v, o).passed


@pytest.mark.parametrize("impl", ["numba", "vendor"])
def test_heads_that_do_not_fit_are_skipped_before_they_are_allocated(impl: str) -> None:
    with pytest.raises(Skip, match="of memory"):
        attention(point(impl, sequence=1 << 17, head=512, heads=1 << 14))
