"""The sum in Numba's CUDA simulator."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.reduce import gpu_numba as reduce
from kernels.reduce.exact import SUM_TYPE, draw, verify_sum


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reduce, "THREADS", 32)  # simulated threads are slow
        yield


def sum_by_blocks(x: np.ndarray, blocks: int) -> float:
    sum_type = SUM_TYPE[x.dtype.name]
    sums, out = np.full(blocks, 77, sum_type), np.full(1, 77, sum_type)
    reduce.launch(x, sums, out)
    return out[0]


@settings(max_examples=20, deadline=None)
@given(length=st.integers(1, 2000), dtype=st.sampled_from(sorted(SUM_TYPE)), seed=st.integers(0, 2**32 - 1))
def test_every_element_is_summed_once(length: int, dtype: str, seed: int) -> None:
    x = np.empty(length, dtype)
    expected = draw(np.random.default_rng(seed), x)
    assert verify_sum(expected, sum_by_blocks(x, 3)).passed


@pytest.mark.parametrize("place", [0, 255, 256, 699])
def test_an_element_left_out_shows(place: int) -> None:
    x = np.empty(700, np.float32)
    expected = draw(np.random.default_rng(1), x)
    x[place] += 1
    assert not verify_sum(expected, sum_by_blocks(x, 2)).passed


def test_int32_does_not_overflow() -> None:
    x = np.full(1000, np.iinfo(np.int32).max, np.int32)
    assert sum_by_blocks(x, 2) == 1000 * np.iinfo(np.int32).max
