"""Operations of vectors of words, for both word widths as far as this CPU supports them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.errors import TypingError

from accelbench.kernels.lib.cpu.threads import compiled
from accelbench.kernels.treesearch.nqueens.lanes import (
    LANES,
    NARROW_LANES,
    choice,
    lanes_of,
    load,
    nonzero,
    splat,
    store_chosen,
)

DTYPES = [np.uint32, *([np.uint16] if NARROW_LANES else [])]


@compiled
def choose(words, mask, out, place):
    store_chosen(out, place, load(words, 1), choice(mask))
    return lanes_of(words), nonzero(load(words, 1))


@compiled
def combine(words, number, out):
    a, b, one = load(words, 0), load(words, lanes_of(words)), splat(words, number)
    every = choice((1 << lanes_of(words)) - 1)
    for i, result in enumerate((a & b, a | b, a ^ b, a - b, ~a, a << one, a >> one)):
        store_chosen(out, i * lanes_of(words), result, every)


def lanes(dtype):
    return NARROW_LANES if dtype == np.uint16 else LANES


@pytest.mark.parametrize("dtype", DTYPES)
@given(seed=st.integers(0, 2**32 - 1), density=st.floats(0, 1), place=st.integers(0, 5))
@settings(deadline=None)
def test_chosen_lanes_are_written_compacted_and_nothing_before_or_beyond(dtype, seed, density, place):
    rng = np.random.default_rng(seed)
    width = lanes(dtype)
    words = np.where(rng.random(width + 1) < 0.3, 0, rng.integers(0, 2**16, width + 1)).astype(dtype)
    bits = rng.random(width) < density
    out = np.full(width + 8, 77, dtype)
    count, alive = choose(words, int(sum(1 << i for i in np.flatnonzero(bits))), out, place)
    assert count == width
    assert [bool(alive >> i & 1) for i in range(width)] == (words[1:] != 0).tolist()
    chosen = words[1:][bits] if width > 1 else words[1:]  # the only lane is always written
    assert out[place : place + len(chosen)].tolist() == chosen.tolist()
    assert (out[:place] == 77).all()
    assert (out[place + width :] == 77).all()


@pytest.mark.parametrize("dtype", DTYPES)
@given(seed=st.integers(0, 2**32 - 1), number=st.integers(0, 15))
@settings(deadline=None)
def test_operators_are_lane_wise_and_truncate_to_the_word(dtype, seed, number):
    width = lanes(dtype)
    words = np.random.default_rng(seed).integers(0, np.iinfo(dtype).max, 2 * width, dtype, endpoint=True)
    out = np.zeros(8 * width, dtype)
    combine(words, np.uint32(number), out)
    a, b, n = words[:width], words[width:], dtype(number)
    for found, expected in zip(out.reshape(8, width), (a & b, a | b, a ^ b, a - b, ~a, a << n, a >> n), strict=False):
        assert found.tolist() == expected.tolist()


def test_words_of_another_width_are_rejected():
    with pytest.raises(TypingError):
        choose(np.zeros(64, np.uint64), 1, np.zeros(64, np.uint64), 0)
