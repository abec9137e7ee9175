"""What generating takes by formula is what adding up token by token gives, and the shapes that a cache has."""

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
def test_a_step_multiplies_with_all_weights_and_holds_a_token_against_those_up_to_itself(of: Generation) -> None:
    size, products = of.size, 0
    for step in range(of.new):
        seen = of.context + step + 1
        # q, k, v and out; the gated network; q·k and the weighted sum of values of each head.
        block = 2 * size.width**2 + 2 * size.width * size.shared_heads * size.head + 3 * size.width * size.hidden
        products += size.blocks * (block + 2 * seen * size.heads * size.head) + VOCABULARY * size.width
    assert of.decode.flops == 2 * of.batch * products
    assert of.decode.items == of.batch * of.new


@given(generations())
def test_a_step_reads_all_weights_and_the_cache_so_far(of: Generation) -> None:
    token = 2 * of.size.blocks * of.size.shared_heads * of.size.head * of.itemsize
    kept = sum(of.batch * token * (of.context + step + 1) for step in range(of.new))
    assert of.decode.bytes == of.new * of.size.parameters * of.itemsize + kept


@given(generations())
def test_the_cache_has_room_for_every_token_that_is_read(of: Generation) -> None:
    batch, heads, length, head = of.cache_shape
    assert (batch, length) == (of.batch, of.context + of.new)
    assert of.size.heads % heads == 0
    assert heads * head * (of.size.heads // heads) == of.size.width
    assert of.cache_bytes == 2 * of.size.blocks * batch * heads * length * head * of.itemsize
    assert of.bytes > of.weight_bytes + of.cache_bytes


@given(generations())
def test_a_prefill_is_the_forward_pass_of_a_training_but_for_the_scores_that_nobody_asks_for(of: Generation) -> None:
    training = of.batch * of.context * of.size.flops_per_token(of.context)
    left_out = 2 * of.batch * (of.context - 1) * VOCABULARY * of.size.width
    assert of.prefill.flops == training / 3 - left_out
    assert of.prefill.items == of.batch * of.context


def test_decoding_moves_more_bytes_per_operation_than_prefilling() -> None:
    of = Generation(SIZES["125m"], batch=1, context=512, new=128, itemsize=2)
    intensities = []
    for work in (of.prefill, of.decode):
        assert work.flops is not None
        assert work.bytes is not None
        intensities.append(work.flops / work.bytes)
    prefill, decode = intensities
    # One token is multiplied with every weight once: 2 operations for the 2 bytes of each.
    assert decode == pytest.approx(1, rel=0.3)
    assert prefill > 300
    many = dataclasses.replace(of, batch=64).decode
    assert many.flops is not None
    assert many.bytes is not None
    assert many.flops / many.bytes > 5 * decode
