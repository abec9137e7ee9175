"""Attention in Triton: a program per block of queries (see `gpu_triton`)."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def attend(
    top: tl.tensor,
    total: tl.tensor,
    sums: tl.tensor,
    query: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    i: tl.tensor,
    begin: tl.tensor,
    end: tl.tensor,
    sequence: tl.tensor,
    scale: tl.tensor,
    HEAD: tl.constexpr,
    KEYS: tl.constexpr,
    CAUSAL: tl.constexpr,
    MASKED: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Return maxima, sums of weights and sums of weighted values, continued over the keys [begin, end)."""
    d = tl.arange(0, HEAD)
    for first in range(begin, end, KEYS):
        j = first + tl.arange(0, KEYS)
        if MASKED:
            key = tl.load(k + j[None, :] * HEAD + d[:, None], mask=j[None, :] < sequence, other=0.0)
            value = tl.load(v + j[:, None] * HEAD + d[None, :], mask=j[:, None] < sequence, other=0.0)
        else:
            key = tl.load(k + j[None, :] * HEAD + d[:, None])
            value = tl.load(v + j[:, None] * HEAD + d[None, :])
        scores = tl.dot(query, key) * scale
        if MASKED:
            allowed = j[None, :] < sequence
            if CAUSAL:
                allowed &= j[None, :] <= i[:, None]
            scores = tl.where(allowed, scores, -float("inf"))
        higher = tl.maximum(top, tl.max(scores, axis=1))
        weights = tl.exp2(scores - higher[:, None])
        before = tl.exp2(top - higher)
        total = total * before + tl.sum(weights, axis=1)
        sums = tl.dot(weights.to(value.dtype), value, sums * before[:, None])
        top = higher
    return top, total, sums


@triton.jit
def attention_triton(
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    o: tl.tensor,
    sequence: tl.tensor,
    scale: tl.tensor,
    HEAD: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    CAUSAL: tl.constexpr,
) -> None:
    """Write O of the program's queries; `scale` is log2(e) / √HEAD.

    The grid has a program per block of queries, and the heads as its second dimension. Keys that no query of the block
    is masked from are computed first, without a mask.
    """
    block = tl.program_id(0)
    if CAUSAL:
        block = tl.num_programs(0) - 1 - block  # the longest blocks start first
    head = tl.program_id(1).to(tl.int64) * sequence * HEAD
    i = block * QUERIES + tl.arange(0, QUERIES)
    d = tl.arange(0, HEAD)
    inside = i[:, None] < sequence
    query = tl.load(q + head + i[:, None] * HEAD + d[None, :], mask=inside, other=0.0)
    top = tl.full((QUERIES,), -float("inf"), tl.float32)
    total = tl.zeros((QUERIES,), tl.float32)
    sums = tl.zeros((QUERIES, HEAD), tl.float32)
    unmasked = (block * QUERIES if CAUSAL else sequence) // KEYS * KEYS
    end = min(block * QUERIES + QUERIES, sequence) if CAUSAL else sequence
    top, total, sums = attend(
        top, total, sums, query, k + head, v + head, i, 0, unmasked, sequence, scale, HEAD, KEYS, CAUSAL, False
    )
    top, total, sums = attend(
        top, total, sums, query, k + head, v + head, i, unmasked, end, sequence, scale, HEAD, KEYS, CAUSAL, True
    )
    tl.store(o + head + i[:, None] * HEAD + d[None, :], (sums / total[:, None]).to(o.dtype.element_ty), mask=inside)
