"""Block-scaled formats: rounding, exact values, and the layout of the scales."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.kernels.lib.block_formats import BLOCK_FORMATS, BlockScaled, quantize, stacked, stored_scales_bytes

DTYPES = sorted(BLOCK_FORMATS)


def normal(rows: int, blocks: int, dtype: str, seed: int, spread: int = 0) -> Any:
    """Return normal numbers (rows, blocks × block) in float32; blocks differ by up to 2^spread."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, blocks, BLOCK_FORMATS[dtype].block), np.float32)
    scaled = np.ldexp(x, rng.integers(0, spread + 1, (rows, blocks, 1)))
    return scaled.reshape(rows, -1).astype(np.float32)


def place(row: int, block: int, blocks: int) -> int:
    """Return the offset of a scale, by the pseudocode of the cuBLAS manual."""
    outer, inner = row % 128, block % 4
    tiles = -(-blocks // 4)
    return (row // 128 * tiles + block // 4) * 512 + (outer % 32) * 16 + (outer // 32) * 4 + inner


@pytest.mark.parametrize("dtype", DTYPES)
@given(rows=st.integers(1, 9), blocks=st.integers(1, 5), seed=st.integers(0, 99), spread=st.integers(0, 4))
def test_values_differ_by_at_most_half_a_step_and_are_rounded_once(
    dtype: str, rows: int, blocks: int, seed: int, spread: int
) -> None:
    kind, x = BLOCK_FORMATS[dtype], normal(rows, blocks, dtype, seed, spread)
    found = quantize(x, dtype)
    values = found.values()
    scales = np.repeat(found.scales.astype(np.float32), kind.block, axis=1)
    if dtype == "mxfp8":
        step = np.maximum(np.abs(x) * 2.0**-4, scales * 2.0**-10)  # 3 mantissa bits, subnormal below 2^-6
        assert np.all(np.abs(x) <= kind.largest * scales), "clipped"
    else:
        step = scales * np.where(np.abs(x) <= 2 * scales, 0.25, np.where(np.abs(x) <= 4 * scales, 0.5, 1))
    assert np.all(np.abs(values - x) <= step * (1 + 1e-6))
    assert np.array_equal(quantize(values, dtype).values(), values)


@pytest.mark.parametrize("dtype", DTYPES)
def test_zeros_stay_zeros_and_a_block_is_scaled_to_its_largest_element(dtype: str) -> None:
    kind = BLOCK_FORMATS[dtype]
    x = np.zeros((2, 2 * kind.block), np.float32)
    x[1, kind.block + 1] = -3 * kind.largest  # 3 is not a power of two, but exact in e4m3
    found = quantize(x, dtype)
    expected = {"mxfp8": -3 * kind.largest, "nvfp4": -18.0}[dtype]
    assert np.flatnonzero(found.values()).tolist() == [3 * kind.block + 1]
    assert found.values()[1, kind.block + 1] == pytest.approx(expected, rel=1 / 16)
    assert found.scales[1, 1].astype(float) == {"mxfp8": 4.0, "nvfp4": 3.0}[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@given(rows=st.integers(1, 300), blocks=st.integers(1, 9))
def test_the_stored_scales_are_a_permutation_padded_with_zeros(dtype: str, rows: int, blocks: int) -> None:
    kind = BLOCK_FORMATS[dtype]
    codes = (np.arange(rows * blocks, dtype=np.int64) % 126 + 1).astype(np.uint8).reshape(rows, blocks)
    elements = np.zeros((rows, blocks * kind.block), getattr(ml_dtypes, kind.element))
    stored = BlockScaled(dtype, elements, codes.view(getattr(ml_dtypes, kind.scale))).stored_scales()
    assert len(stored) == stored_scales_bytes(rows, blocks * kind.block, dtype)
    places = np.array([[place(row, block, blocks) for block in range(blocks)] for row in range(rows)])
    assert len(np.unique(places)) == places.size
    assert np.array_equal(stored[places], codes)
    assert not np.delete(stored, places.ravel()).any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_product_of_elements_scaled_by_blocks_is_the_product_of_the_values(dtype: str) -> None:
    block = BLOCK_FORMATS[dtype].block
    a, b = (quantize(normal(rows, 6, dtype, rows, spread=3), dtype) for rows in (20, 30))
    total = np.zeros((20, 30))
    for number in range(6):
        part = slice(number * block, (number + 1) * block)
        elements = a.elements[:, part].astype(np.float64) @ b.elements[:, part].astype(np.float64).T
        total += elements * np.outer(a.scales[:, number].astype(np.float64), b.scales[:, number].astype(np.float64))
    assert np.allclose(total, a.values().astype(np.float64) @ b.values().astype(np.float64).T, rtol=1e-12, atol=1e-12)


def test_two_numbers_of_four_bits_share_a_byte() -> None:
    x = np.zeros((1, 16), np.float32)
    x[0, :3] = 6, -0.5, 1
    stored = quantize(x, "nvfp4").stored_elements()
    # e2m1: 6 is 0111, -0.5 is 1001, 1 is 0010; the scale is 1.
    assert stored.tolist() == [[0x97, 0x02, 0, 0, 0, 0, 0, 0]]


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_rounded_independently(dtype: str) -> None:
    x = normal(7, 3, dtype, 1)
    parts = stacked([quantize(x[begin : begin + 2], dtype) for begin in range(0, 7, 2)])
    assert np.array_equal(parts.values(), quantize(x, dtype).values())
    assert np.array_equal(parts[2:4].stored_elements(), quantize(x[2:4], dtype).stored_elements())
