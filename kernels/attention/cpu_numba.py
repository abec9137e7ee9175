"""Attention on all cores by online softmax over blocks of keys; scores stay in the caches.

Algorithm: Dao et al., "FlashAttention", 2022; Milakov and Gimelshein, "Online normalizer calculation for softmax",
2018. Bound: the FLOP of both products in the FMA units.

A thread processes one tile of queries, as many as a tile of the matrix product is wide
(`fma_microkernel.multiply_tile`), with transposed matrices: scores Sᵀ = K·Qᵀ and output Oᵀ += Vᵀ·Pᵀ. Thus each vector
lane holds one query, maximum and sum over the keys need no exchange between lanes, and the weights Pᵀ already have the
layout of the second product. K and V of a head are packed once for all queries, in the order in which the microkernel
reads its left operand. The scores of a block are initialised with the mask, to which the product is added. Keys after
the last query of a tile are skipped; later keys within the tile are computed and masked.

Measured share of the bound with 12 heads, causal, in float32, on two cores of a shared AMD virtual machine with
AVX-512, alternating with `peak-arith`: with 512 queries 0.49 for a head dimension of 64 and 0.64 for 128; with 2,048
queries 0.55 and 0.65–0.73. NumPy reaches a third to a half of these rates. Packing of Q, K and V takes a seventh of the
time at 512 queries and a head dimension of 64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import prange

from accelbench.kernels.attention.cpu_task import cpu_task
from accelbench.kernels.attention.shape import Attention
from accelbench.kernels.lib.cpu.arrays import even
from accelbench.kernels.lib.cpu.fma_microkernel import multiply_tile
from accelbench.kernels.lib.cpu.simd import fma, lanes_of, load, splat, store, tile_columns, tile_rows, tile_shape
from accelbench.kernels.lib.cpu.threads import compiled, parallel, take_next, thread_count
from accelbench.kernels.lib.cpu.vector_math import exponential, larger
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point

KEYS = 112
"""Target number of keys in a block. Its scores, 14 KiB of float32 with AVX-512, stay in L1 between the products."""
LOWEST = np.float32(-1e30)
"""Score of a masked key: finite, but so low that its weight is 0 after any product is added to it."""
ONE = np.float32(1)


@compiled
def pack_keys(k: Any, source: int, packed: Any, target: int, keys: int, head: int) -> None:
    """Pack the keys of a head into panels of MR keys, each as `head` columns of MR elements, padded with zeros."""
    mr = tile_rows(k)
    for first in range(0, keys, mr):
        for i in range(mr):
            for d in range(head):
                at = target + first * head + d * mr + i
                packed[at] = k[source + (first + i) * head + d] if first + i < keys else ONE - ONE


@compiled
def pack_values(v: Any, source: int, packed: Any, target: int, keys: int, head: int) -> None:
    """Pack the values of a head into panels of MR dimensions, each as `keys` columns, padded with zeros."""
    mr = tile_rows(v)
    for first in range(0, head, mr):
        for key in range(keys):
            for i in range(mr):
                at = target + first * keys + key * mr + i
                packed[at] = v[source + key * head + first + i] if first + i < head else ONE - ONE


@compiled
def pack_queries(q: Any, source: int, packed: Any, queries: int, head: int) -> None:
    """Pack the transposed queries of a tile, divided by √head and padded with zeros."""
    nr, scale = tile_columns(q), ONE / np.float32(math.sqrt(head))
    for d in range(head):
        for j in range(nr):
            packed[d * nr + j] = q[source + j * head + d] * scale if j < queries else ONE - ONE


@compiled
def begin_as_mask(scores: Any, rows: int, seen: int) -> None:
    """Set the scores of a block to 0 if query j attends to key i, that is i ≤ j + `seen`, and to LOWEST otherwise."""
    nr, lanes = tile_columns(scores), lanes_of(scores)
    zero = splat(ONE - ONE)
    for at in range(0, rows * nr, lanes):
        store(scores, at, zero)
    for i in range(max(0, seen + 1), rows):
        for j in range(min(nr, i - seen)):
            scores[i * nr + j] = LOWEST


@compiled
def weigh(scores: Any, keys: int, top: Any, total: Any, output: Any, rows: int) -> None:
    """Replace the scores of a block by e^(score − maximum), and rescale sum and output by the growth of the maximum."""
    nr, lanes = tile_columns(scores), lanes_of(scores)
    one, minus_one, zero = splat(ONE), splat(-ONE), splat(ONE - ONE)
    for j in range(0, nr, lanes):
        before = load(top, j)
        m0, m1 = before, load(scores, j)
        for i in range(0, keys - 1, 2):
            m0 = larger(load(scores, i * nr + j), m0)
            m1 = larger(load(scores, (i + 1) * nr + j), m1)
        highest = larger(larger(load(scores, (keys - 1) * nr + j), m0), m1)
        minus = fma(highest, minus_one, zero)
        factor = exponential(fma(one, before, minus))
        store(top, j, highest)
        s0, s1 = fma(load(total, j), factor, zero), zero
        for i in range(0, keys - 1, 2):
            w0 = exponential(fma(one, load(scores, i * nr + j), minus))
            w1 = exponential(fma(one, load(scores, (i + 1) * nr + j), minus))
            store(scores, i * nr + j, w0)
            store(scores, (i + 1) * nr + j, w1)
            s0, s1 = fma(one, w0, s0), fma(one, w1, s1)
        if keys % 2 == 1:
            w0 = exponential(fma(one, load(scores, (keys - 1) * nr + j), minus))
            store(scores, (keys - 1) * nr + j, w0)
            s0 = fma(one, w0, s0)
        store(total, j, fma(one, s0, s1))
        for d in range(rows):
            store(output, d * nr + j, fma(load(output, d * nr + j), factor, zero))


@compiled
def attend_tile(
    q: Any, keys: Any, values: Any, o: Any, source: int, first: int, queries: int, sequence: int, head: int,
    causal: bool, at_keys: int, at_values: int, packed: Any, scores: Any, output: Any, top: Any, total: Any,
) -> None:  # fmt: skip
    """Write the rows of O for the queries of a tile; `first` is the position of its first query in the sequence."""
    mr, nr = tile_rows(q), tile_columns(q)
    block = len(scores) // nr
    pack_queries(q, source, packed, queries, head)
    output[:] = 0
    total[:] = 0
    top[:] = LOWEST
    end = min(first + queries, sequence) if causal else sequence
    for k0 in range(0, end, block):
        count = min(block, end - k0)
        panels = (count + mr - 1) // mr
        begin_as_mask(scores, panels * mr, first - k0 if causal else sequence)
        for i in range(0, panels * mr, mr):
            multiply_tile(head, keys, at_keys + (k0 + i) * head, packed, 0, scores, i * nr, nr, False, packed, 0, 0)
        weigh(scores, count, top, total, output, head)
        for d in range(0, head, mr):
            multiply_tile(
                count, values, at_values + d * sequence + k0 * mr, scores, 0, output, d * nr, nr, False, scores, 0, 0
            )
    for j in range(queries):
        share = ONE / total[j]
        for d in range(head):
            o[source + j * head + d] = output[d * nr + j] * share


@parallel
def attend_all(
    q: Any, k: Any, v: Any, o: Any, heads: int, sequence: int, head: int, causal: bool, keys: Any, values: Any,
    packed: Any, scores: Any, output: Any, top: Any, total: Any, counter: Any,
) -> None:  # fmt: skip
    """Pack K and V, then distribute the tiles of queries over the threads, those with the most keys first."""
    nr = tile_columns(q)
    all_keys, all_values = len(keys) // heads, len(values) // heads
    for number in prange(heads):
        pack_keys(k, number * sequence * head, keys, number * all_keys, sequence, head)
        pack_values(v, number * sequence * head, values, number * all_values, sequence, head)
    tiles = (sequence + nr - 1) // nr
    counter[0] = 0
    for thread in prange(len(packed)):
        task = take_next(counter)
        while task < heads * tiles:
            number, first = task // tiles, (tiles - 1 - task % tiles) * nr
            attend_tile(
                q, keys, values, o, (number * sequence + first) * head, first, min(nr, sequence - first), sequence,
                head, causal, number * all_keys, number * all_values, packed[thread], scores[thread], output[thread],
                top[thread], total[thread],
            )  # fmt: skip
            task = take_next(counter)


def packed_sizes(size: Attention, itemsize: int) -> tuple[int, int]:
    """Return the packed sizes of K and V of a head in elements, rounded up to whole panels."""
    mr, _ = tile_shape(itemsize)
    keys, dimensions = (-(-extent // mr) * mr for extent in (size.sequence, size.head))
    return keys * size.head, dimensions * size.sequence


class Attender:
    """Attention kernel for one problem size, with its buffers."""

    def __init__(self, size: Attention, dtype: Any, threads: int) -> None:
        mr, nr = tile_shape(np.dtype(dtype).itemsize)
        keys, values = packed_sizes(size, np.dtype(dtype).itemsize)
        block, rows = even(size.sequence, KEYS, mr), -(-size.head // mr) * mr
        each = (nr * size.head, nr * block, nr * rows, nr, nr)
        self.arguments = (
            *(size.shape), size.causal, np.empty(size.heads * keys, dtype), np.empty(size.heads * values, dtype),
            *(np.empty((threads, elements), dtype) for elements in each), np.zeros(1, np.int64),
        )  # fmt: skip

    def __call__(self, q: Any, k: Any, v: Any, o: Any) -> None:
        """Write the attention of Q, K and V to O; all are contiguous float32 arrays of `Attention.shape`."""
        attend_all(q.reshape(-1), k.reshape(-1), v.reshape(-1), o.reshape(-1), *self.arguments)


def prepare(point: Point) -> Task:
    """See `cpu_task`."""
    return cpu_task(
        point,
        lambda size, dtype: Attender(size, dtype, thread_count()),
        lambda size: size.heads * sum(packed_sizes(size, np.dtype(str(point["dtype"])).itemsize)),
    )
