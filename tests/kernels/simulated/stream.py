"""The memory operations in Numba's CUDA simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.stream import gpu_numba as stream
from kernels.stream.gpu_arrays import longest_chain, verify_dot, verify_elements
from kernels.stream.operations import SCALAR
from profiling.benchmark import Task

simulated = settings(max_examples=15, deadline=None)
seeds = st.integers(0, 2**32 - 1)
dtypes = st.sampled_from(sorted(stream.REAL))
# Of a vector (16 bytes), of what a grid of 2 × 32 threads loads at once, and of neither.
lengths = st.integers(1, 20) | st.sampled_from([128, 255, 256, 257, 512, 1023, 1024, 1025]) | st.integers(1, 2500)


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "THREADS", 32)  # simulated threads are slow
        yield


def run_on_random(op: str, dtype: str, length: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x, y = (rng.standard_normal(length, dtype=dtype) for _ in range(2))
    out = np.full(length, np.nan, dtype)
    stream.ELEMENTWISE[op, dtype][2, stream.THREADS](x, y, np.dtype(dtype).type(SCALAR), out)
    return x, y, out


def dot_of(x: np.ndarray, y: np.ndarray, blocks: int) -> float:
    sums, out = np.full(blocks, np.nan, x.dtype), np.full(1, np.nan, x.dtype)
    partial, total = stream.DOT[x.dtype.name]
    partial[blocks, stream.THREADS](x, y, sums)
    total[1, stream.THREADS](sums, out)
    return float(out[0])


@simulated
@given(length=lengths, op=st.sampled_from(sorted(stream.OPERATIONS)), seed=seeds, dtype=dtypes)
def test_every_element_is_written(length: int, op: str, seed: int, dtype: str) -> None:
    assert verify_elements(op, *run_on_random(op, dtype, length, seed)).passed


@simulated
@given(length=lengths, blocks=st.integers(1, 3), seed=seeds, dtype=dtypes)
def test_every_product_is_summed_once(length: int, blocks: int, seed: int, dtype: str) -> None:
    rng = np.random.default_rng(seed)
    x, y = (rng.standard_normal(length, dtype=dtype) for _ in range(2))
    assert verify_dot(x, y, dot_of(x, y, blocks), longest_chain(length, blocks, stream.THREADS)).passed


@pytest.mark.parametrize("place", [0, 255, 256, 1023, 1026])
def test_a_product_left_out_shows(place: int) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.random(1027) + 1 for _ in range(2))
    without = x.copy()
    without[place] = 0
    chain = longest_chain(len(x), 2, stream.THREADS)
    assert verify_dot(x, y, dot_of(x, y, 2), chain).passed
    assert not verify_dot(x, y, dot_of(without, y, 2), chain).passed


def test_nothing_beyond_the_arrays_is_touched() -> None:
    guarded = np.full((3, 1027 + 64), np.nan)
    x, y, out = (row[:1027] for row in guarded)
    x[:], y[:] = np.random.default_rng(0).standard_normal((2, 1027))
    for op in stream.OPERATIONS:
        stream.ELEMENTWISE[op, "float64"][2, stream.THREADS](x, y, SCALAR, out)
        assert verify_elements(op, x, y, out).passed
    assert np.isnan(guarded[:, 1027:]).all()


@pytest.mark.parametrize("op", ["triad", "dot"])
def test_a_prepared_point_verifies_itself(
    prepared: Callable[..., Task], monkeypatch: pytest.MonkeyPatch, op: str
) -> None:
    monkeypatch.setattr("kernels.stream.gpu_arrays.MIN_BYTES", 4000)
    task = prepared("stream.gpu_numba", op=op, dtype="float32")
    outcome = task.verify()
    assert outcome.passed, outcome
    # Four times the stand-in's L2 cache of 4 KiB.
    assert task.work.bytes == {"triad": 3, "dot": 2}[op] * (4 << 12)
