"""The formulas of generation agree with sums over tokens, and with the shapes of the cache."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.workloads.language.generation import Generation
from accelbench.workloads.language.sizes import SIZES, VOCABULARY, Size


@st.composite
def generations(draw: st.DrawFn) -> Generation:
    shared, served, pairs = (draw(st.integers(1, 4)) for _ in range(3))
    heads = shared * served
    size = Size(
        width=heads * 2 * pairs,
        blocks=draw(st.integers(1, 5)),
        heads=heads,
        shared_heads=shared,
        hidden=draw(st.integers(1, 64)),
        rate=1e-3,
    )
    counts = (draw(st.integers(1, 40)) for _ in range(3))
    return Generation(size, *counts, itemsize=draw(st.sampled_from((2, 4))))


@given(generations())
def test_decode_multiplies_with_all_weights_and_attends_to_all_tokens_so_far(generation: Generation) -> None:
    size, products = generation.size, 0
    for step in range(generation.new):
        seen = generation.context + step + 1
        # q, k, v and out; the feed-forward network; q·k and the weighted sum of values of each head.
        block = 2 * size.width**2 + 2 * size.width * size.shared_heads * size.head + 3 * size.width * size.hidden
        products += size.blocks * (block + 2 * seen * size.heads * size.head) + VOCABULARY * size.width
    assert generation.decode.flops == 2 * generation.batch * products
    assert generation.decode.items == generation.batch * generation.new


@given(generations())
def test_decode_reads_all_weights_and_the_cache_so_far(generation: Generation) -> None:
    token = 2 * generation.size.blocks * generation.size.shared_heads * generation.size.head * generation.itemsize
    kept = sum(generation.batch * token * (generation.context + step + 1) for step in range(generation.new))
    assert generation.decode.bytes == generation.new * generation.size.parameters * generation.itemsize + kept


@given(generations())
def test_the_cache_has_room_for_every_token(generation: Generation) -> None:
    batch, heads, length, head = generation.cache_shape
    assert (batch, length) == (generation.batch, generation.context + generation.new)
    assert generation.size.heads % heads == 0
    assert heads * head * (generation.size.heads // heads) == generation.size.width
    assert generation.cache_bytes == 2 * generation.size.blocks * batch * heads * length * head * generation.itemsize
    assert generation.bytes > generation.weight_bytes + generation.cache_bytes


@given(generations())
def test_prefill_is_a_forward_pass_with_scores_of_the_last_token_only(generation: Generation) -> None:
    training = generation.batch * generation.context * generation.size.flops_per_token(generation.context)
    left_out = 2 * generation.batch * (generation.context - 1) * VOCABULARY * generation.size.width
    assert generation.prefill.flops == training / 3 - left_out
    assert generation.prefill.items == generation.batch * generation.context


def test_decode_has_a_lower_intensity_than_prefill() -> None:
    generation = Generation(SIZES["125m"], batch=1, context=512, new=128, itemsize=2)
    intensities = []
    for work in (generation.prefill, generation.decode):
        assert work.flops is not None
        assert work.bytes is not None
        intensities.append(work.flops / work.bytes)
    prefill, decode = intensities
    # Each weight is used once per token: 2 operations for its 2 bytes.
    assert decode == pytest.approx(1, rel=0.3)
    assert prefill > 300
    many = dataclasses.replace(generation, batch=64).decode
    assert many.flops is not None
    assert many.bytes is not None
    assert many.flops / many.bytes > 5 * decode
