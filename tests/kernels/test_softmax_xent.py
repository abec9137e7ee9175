"""Softmax cross-entropy and its gradient: correct for any rows, and wrong results fail the verification."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from accelbench.kernels.lib.cpu import array_task as cpu
from accelbench.kernels.lib.cpu.arrays import aligned_empty
from accelbench.kernels.lib.cpu.simd import lanes, load, store_past_cache
from accelbench.kernels.lib.cpu.threads import thread_count
from accelbench.kernels.lib.cpu.vector_math import SMALLEST, exponential, larger, largest_lane
from accelbench.kernels.softmax_xent import cpu_numba, reference, softmax_xent
from accelbench.profiling.records.point import Point

LANES = lanes(4)


def point(impl: str, vocabulary: int) -> Point:
    return Point("softmax-xent", "cpu", {"impl": impl, "vocabulary": vocabulary}, seed=7)


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "rows_per_array", lambda width, threads, itemsize: 5 * threads)


@pytest.mark.parametrize("impl", ["numba", "vendor"])
@pytest.mark.parametrize("vocabulary", [1, 1000, 50_257])
@pytest.mark.usefixtures("few_rows")
def test_every_implementation_is_verified_and_counts_one_read_and_one_write(impl: str, vocabulary: int) -> None:
    task = softmax_xent(point(impl, vocabulary))
    task.run()
    outcome = task.verify()
    assert outcome.passed, outcome
    rows = 5 * (thread_count() if impl == "numba" else 1)
    assert task.work.bytes == 4 * (2 * rows * vocabulary + 2 * rows)


@settings(deadline=None, max_examples=60)
@given(
    rows=st.integers(1, 4),
    width=st.integers(1, 40) | st.integers(1, 700) | st.integers(-5, 5).map(lambda more: 2 * cpu_numba.BLOCK + more),
    threads=st.integers(1, 3),
    mean=st.sampled_from([-1000.0, 0.0, 100.0]),
    order=st.sampled_from(["random", "rising", "falling"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_rows_of_any_length_have_their_loss_and_gradient_and_nothing_beyond_is_written(
    rows: int, width: int, threads: int, mean: float, order: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    scores = (mean + 4 * rng.standard_normal((rows, width))).astype(np.float32)
    if order != "random":
        scores.sort(axis=1)
        scores = np.ascontiguousarray(scores if order == "rising" else scores[:, ::-1])
    labels, losses = reference.draw_labels(rng, rows, width), np.full(rows, np.nan, np.float32)
    whole = aligned_empty(rows * width + 64, np.float32)
    whole.fill(np.nan)
    flat, gradient = scores.reshape(-1), whole[: rows * width]
    cpu_numba.differentiate_on_all(flat, labels, losses, gradient, threads)
    outcome = reference.verify_cross_entropy([([flat, labels], [losses, gradient])], rows)
    assert outcome.passed, outcome
    assert np.isnan(whole[rows * width :]).all()


def wrong(fault: str, scores: Any, labels: Any, losses: Any, gradient: Any) -> None:
    rows = len(labels)
    scores, gradient = (array.reshape(rows, -1) for array in (scores, gradient))
    at_label = np.arange(rows), labels
    reference.cross_entropy(np, scores, labels, losses, gradient)
    if fault == "maximum not subtracted":
        with np.errstate(over="ignore", invalid="ignore"):
            exponentials = np.exp(scores)
            gradient[:] = exponentials / exponentials.sum(axis=1, keepdims=True) / rows
        gradient[at_label] -= np.float32(1 / rows)
    elif fault == "sum instead of mean":
        gradient *= rows
    elif fault == "without the label":
        gradient[at_label] += np.float32(1 / rows)
    elif fault == "the neighbouring label":
        reference.cross_entropy(np, scores, (labels + 1) % scores.shape[1], losses, gradient)
    elif fault == "one loss not written":
        losses[-1] = np.nan
    elif fault == "one element not written":
        gradient[-1, -1] = np.nan
    elif fault == "maximum missing in the loss":
        losses -= scores.max(axis=1)
    elif fault == "sum not rescaled":
        half = scores.shape[1] // 2
        top, first = scores.max(axis=1, keepdims=True), scores[:, :half].max(axis=1, keepdims=True)
        stale = np.exp(scores[:, :half] - first).sum(axis=1) + np.exp(scores[:, half:] - top).sum(axis=1)
        losses[:] = np.log(stale) - (scores[at_label] - top[:, 0])


@pytest.mark.parametrize(
    "fault",
    [
        "maximum not subtracted",
        "sum instead of mean",
        "without the label",
        "the neighbouring label",
        "one loss not written",
        "one element not written",
        "maximum missing in the loss",
        "sum not rescaled",
    ],
)
@pytest.mark.usefixtures("few_rows")
def test_a_wrong_loss_or_gradient_fails(fault: str) -> None:
    own = point("own", 5000)
    task = cpu.array_task(own, reference.problem(own), lambda *arguments: wrong(fault, *arguments[:4]), threads=2)
    assert not task.verify().passed


@njit
def exponentials(x: Any, out: Any, lanes: int) -> None:
    for i in range(0, len(x), lanes):
        store_past_cache(out, i, exponential(load(x, i)))


@njit
def largest(x: Any, lanes: int) -> Any:
    found = load(x, 0)
    for i in range(lanes, len(x), lanes):
        found = larger(load(x, i), found)
    return largest_lane(found)


def test_the_exponential_of_a_vector_is_within_two_units_in_the_last_place() -> None:
    x = aligned_empty(1 << 20, np.float32)
    x[:] = -np.concatenate([np.linspace(0, -SMALLEST, (1 << 20) - 1), [200.0]])
    out = aligned_empty(len(x), np.float32)
    exponentials(x, out, LANES)
    expected = np.exp(np.maximum(x, SMALLEST).astype(np.float64))
    assert np.max(np.abs(out - expected) / np.spacing(expected.astype(np.float32))) < 2
    assert out[0] == 1


@given(place=st.integers(0, 4 * LANES - 1))
def test_the_largest_element_is_found_in_every_lane(place: int) -> None:
    x = np.full(4 * LANES, -3, np.float32)
    x[place] = -2
    assert largest(x, LANES) == -2
