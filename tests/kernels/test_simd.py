"""Vector operations, for all widths of this CPU."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import prange
from numba.core.errors import TypingError

from accelbench.kernels.lib.cpu import simd
from accelbench.kernels.lib.cpu.fma_microkernel import multiply_half_tile, multiply_tile
from accelbench.kernels.lib.cpu.threads import compiled, parallel, take_next, thread_count

DTYPES = ("float32", "float64")


@compiled
def run_vector_fma(a, b, c, out, scalar):
    factor = simd.splat(scalar)
    for i in range(0, len(a), simd.lanes_of(a)):
        product = simd.fma(simd.load(a, i), simd.load(b, i), simd.load(c, i))
        simd.store_past_cache(out, i, simd.fma(factor, product, simd.load(c, i)))
    simd.fence()


@compiled
def run_add_lanes(a):
    return simd.add_lanes(simd.load(a, 1))


@compiled
def run_chains(sums, factors, steps):
    simd.run_fma_chains(sums, 0, simd.load(factors, 0), simd.load(factors, len(factors) // 2), steps)


@compiled
def run_tile(depth, a, b, c, start, stride, begins):
    multiply_tile(depth, a, 0, b, 0, c, start, stride, begins, b, 5, 7)


@compiled
def run_half_tile(depth, a, b, c, start, stride, begins):
    multiply_half_tile(depth, a, 0, b, 0, c, start, stride, begins, b, 5, 7)


@compiled
def run_load_wrong_type(a):
    return simd.add_lanes(simd.load(a, 0))


def aligned(count, dtype):
    memory = np.empty(count * np.dtype(dtype).itemsize + 64, np.uint8)
    offset = -memory.ctypes.data % 64
    return memory[offset : offset + count * np.dtype(dtype).itemsize].view(dtype)


def test_a_vector_is_a_register_of_this_cpu():
    assert simd.vector_bytes() in (16, 32, 64)
    assert simd.lanes(4) == 2 * simd.lanes(8)
    rows, columns = simd.tile_shape(4)
    held = rows * columns // simd.lanes(4)
    assert simd.VECTORS_WIDE <= held < simd.vector_registers()


@pytest.mark.parametrize("dtype", DTYPES)
def test_loads_fmas_and_stores_past_the_cache_cover_every_element(dtype):
    rng = np.random.default_rng(5)
    a, b, c = (rng.standard_normal(256).astype(dtype) for _ in range(3))
    out = aligned(256, dtype)
    out.fill(np.nan)
    run_vector_fma(a, b, c, out, np.dtype(dtype).type(0.75))
    expected = 0.75 * (a.astype(float) * b + c) + c
    np.testing.assert_allclose(out, expected, rtol=1e-4 if dtype == "float32" else 1e-12, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_lanes_of_a_vector_are_added_from_an_unaligned_place(dtype):
    width = simd.lanes(np.dtype(dtype).itemsize)
    assert run_add_lanes(np.arange(1 + width, dtype=dtype)) == sum(range(1, 1 + width))


@pytest.mark.parametrize("dtype", DTYPES)
@given(steps=st.integers(1, 1000), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_every_chain_does_exactly_the_requested_steps(dtype, steps, seed):
    rng = np.random.default_rng(seed)
    width = simd.lanes(np.dtype(dtype).itemsize)
    sums = rng.integers(-1000, 1000, simd.fma_chains() * width).astype(dtype)
    factors = rng.integers(-11, 12, 2 * width).astype(dtype)
    expected = sums + steps * np.tile(factors[:width] * factors[width:], simd.fma_chains())
    run_chains(sums, factors, steps)
    np.testing.assert_array_equal(sums, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("half", [False, True])
@given(depth=st.integers(1, 70), beyond=st.integers(0, 9), begins=st.booleans(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_a_tile_overwrites_c_or_is_added_to_it_and_nothing_else_is_written(dtype, half, depth, beyond, begins, seed):
    rng = np.random.default_rng(seed)
    rows, columns = simd.tile_shape(np.dtype(dtype).itemsize)
    rows = rows // 2 if half else rows
    a = rng.integers(-4, 5, (depth, rows)).astype(dtype)
    b = rng.integers(-4, 5, (depth, columns)).astype(dtype)
    c = rng.integers(-9, 9, (rows + 2, columns + beyond)).astype(dtype)
    expected = c.copy()
    expected[1 : 1 + rows, :columns] *= not begins
    expected[1 : 1 + rows, :columns] += a.T @ b
    run = run_half_tile if half else run_tile
    run(depth, a.reshape(-1), b.reshape(-1), c.reshape(-1), c.shape[1], c.shape[1], begins)
    np.testing.assert_array_equal(c, expected)


def test_integers_are_no_vectors():
    with pytest.raises(TypingError):
        run_load_wrong_type(np.arange(64))


@parallel
def take_all(counter, taken, threads):
    for _thread in prange(threads):
        task = take_next(counter)
        while task < len(taken):
            taken[task] += 1
            task = take_next(counter)


def test_every_task_is_taken_exactly_once():
    taken = np.zeros(100_000, np.int64)
    take_all(np.zeros(1, np.int64), taken, max(thread_count(), 4))
    assert (taken == 1).all()
