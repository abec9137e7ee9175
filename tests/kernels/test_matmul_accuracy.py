"""Check of matrix products: rounding errors pass, and other errors fail."""

from __future__ import annotations

import os
from itertools import combinations
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.kernels.lib.formats import BLOCK, FORMATS, draw, from_storage, poison_byte, to_storage
from accelbench.kernels.matmul.accuracy import tolerance, verify_product

DTYPES = ("float64", "float32", "float16", "bfloat16", "fp8", "int8")
SHAPES = [(1, 1, 1, 1), (40, 1, 1, 1), (1, 1, 300, 50), (20_000, 1, 1, 1), (129, 65, 40, 3), (64, 64, 5000, 1)]


def numbers(rng: np.random.Generator, dtype: str, m: int, n: int, k: int, batch: int = 1) -> tuple[Any, Any]:
    a, b = (from_storage(draw(rng, (batch, *shape), dtype), dtype) for shape in ((m, k), (k, n)))
    return a, b


def product(a: Any, b: Any, dtype: str) -> Any:
    """Return A·B like a device: summed in the wide type and rounded to the type of C."""
    wide = np.float32 if dtype in ("float32", "float16", "bfloat16", "fp8") else np.float64
    result = FORMATS[dtype].result
    return from_storage(to_storage(a.astype(wide) @ b.astype(wide), result), result)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("m", "n", "k", "batch"), SHAPES)
def test_a_product_computed_in_its_own_precision_passes(dtype: str, m: int, n: int, k: int, batch: int) -> None:
    rng = np.random.default_rng(m * n)
    a, b = numbers(rng, dtype, m, n, k, batch)
    outcome = verify_product(a, b, product(a, b, dtype), dtype, rng)
    assert outcome.passed, outcome


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "fault", ["poisoned", "transposed", "zeros", "a part unwritten", "a row off by one", "a deep part missing"]
)
def test_a_wrong_product_fails(dtype: str, fault: str) -> None:
    rng = np.random.default_rng(4)
    a, b = numbers(rng, dtype, 128, 128, 256)
    c = product(a, b, dtype)
    assert verify_product(a, b, c, dtype, rng).passed
    result = FORMATS[dtype].result
    unwritten = np.full((*c.shape, FORMATS[dtype].result_itemsize), poison_byte(result), np.uint8)
    poisoned = from_storage(unwritten.view(FORMATS[result].storage), result)[..., 0]
    if fault == "poisoned":
        c = poisoned
    elif fault == "transposed":
        c = c.swapaxes(1, 2).copy()
    elif fault == "zeros":
        c = np.zeros_like(c)
    elif fault == "a part unwritten":
        c[0, 96:, 127] = poisoned[0, 96:, 127]
    elif fault == "a row off by one":
        c[:, 1:] = c[:, :-1].copy()
    else:
        c = product(a[:, :, :-16], b[:, :-16], dtype)
    assert not verify_product(a, b, c, dtype, rng).passed


@pytest.mark.parametrize("dtype", ["float64", "float32", "int8"])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_one_wrong_element_of_one_matrix_of_a_batch_fails(dtype: str, data: st.DataObject) -> None:
    m, n, k, batch = (data.draw(st.integers(1, 30)) for _ in range(4))
    rng = np.random.default_rng(m)
    a, b = numbers(rng, dtype, m, n, k, batch)
    c = product(a, b, dtype)
    place = tuple(data.draw(st.integers(0, size - 1)) for size in c.shape)
    c[place] += 1
    assert not verify_product(a, b, c, dtype, rng).passed


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "fp8"])
def test_a_few_wrong_elements_of_a_row_are_not_lost_among_the_others(dtype: str) -> None:
    rng = np.random.default_rng(5)
    a, b = numbers(rng, dtype, 256, 512, 512)
    c = product(a, b, dtype)
    c[0, 7, 504:] = c[0, 8, 504:]
    assert not verify_product(a, b, c, dtype, rng).passed


def test_a_product_of_int8_that_saturates_or_rounds_fails() -> None:
    rng = np.random.default_rng(6)
    a, b = numbers(rng, "int8", 64, 64, 1024)
    assert {a.min(), a.max()} == {-128, 127}
    exact = product(a, b, "int8")
    assert verify_product(a, b, exact, "int8", rng).passed
    assert not verify_product(a, b, np.clip(exact, -(2**18), 2**18), "int8", rng).passed
    assert not verify_product(a, b, exact & ~1, "int8", rng).passed


def test_an_int8_product_too_large_for_an_exact_check_raises_an_error() -> None:
    a, b = np.zeros((1, 1, 2**20), np.int8), np.broadcast_to(np.int8(0), (1, 2**20, 2**20))
    with pytest.raises(ValueError, match="too large"):
        verify_product(a, b, np.zeros((1, 1, 2**20), np.int32), "int8", np.random.default_rng(0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_random_inputs_do_not_depend_on_the_number_of_cpus(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    shape = (3, BLOCK // 2, 1)
    drawn = []
    for cpus in ({0}, set(range(7))):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid, cpus=cpus: cpus)
        rng = np.random.default_rng(8)
        drawn.append([draw(rng, shape, dtype), draw(rng, shape, dtype)])
    np.testing.assert_array_equal(*drawn)
    first, second = (from_storage(x, dtype).reshape(-1) for x in drawn[0])
    blocks = [first[:BLOCK], first[BLOCK:], second[:BLOCK]]
    assert all(np.any(x[: BLOCK // 2] != y[: BLOCK // 2]) for x, y in combinations(blocks, 2)), "equal blocks"


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "fp8"])
def test_random_inputs_are_standard_normal(dtype: str) -> None:
    x = from_storage(draw(np.random.default_rng(9), (BLOCK + BLOCK // 2,), dtype), dtype).astype(np.float64)
    assert abs(x.mean()) < 0.01
    assert abs(x.std() - 1) < 0.01
    assert abs(np.mean(np.abs(x) < 1) - 0.6827) < 0.03  # fp8 has few numbers near 1


def rounded_to_tf32(x: Any) -> Any:
    return ((x.view(np.uint32) + 0x1000) & 0xFFFFE000).view(np.float32)


def test_a_tf32_product_fails_the_float32_check() -> None:
    rng = np.random.default_rng(1)
    a, b = numbers(rng, "float32", 512, 512, 512)
    c = rounded_to_tf32(a) @ rounded_to_tf32(b)
    assert verify_product(a, b, c, "tf32", rng).passed
    assert not verify_product(a, b, c, "float32", rng).passed


@pytest.mark.parametrize("dtype", ["float64", "float32", "tf32", "float16", "bfloat16", "fp8"])
def test_the_tolerance_is_below_the_error_of_a_missing_128th_of_the_sum(dtype: str) -> None:
    assert all(tolerance(dtype, k) < (1 / 128) ** 0.5 for k in (1, 64, 4096, 8192))


def test_a_product_too_small_for_the_normal_numbers_of_float16_passes() -> None:
    a, b = np.full((1, 9, 1), 0.7, np.float16), np.full((1, 1, 3), 2e-5, np.float16)
    c = (a.astype(np.float32) * b.astype(np.float32)).astype(np.float16)
    assert verify_product(a, b, c, "float16", np.random.default_rng(0)).passed


@pytest.mark.parametrize(("dtype", "kind"), [("bfloat16", ml_dtypes.bfloat16), ("fp8", ml_dtypes.float8_e4m3fn)])
def test_small_floats_are_stored_as_their_bits(dtype: str, kind: Any) -> None:
    x = np.array([0.0, 1.0, -1.0, 0.3, 1.0625, 17.0, 19.0, 300.0, 2**-9, np.nan], np.float32)
    stored = to_storage(x, dtype)
    assert stored.dtype == FORMATS[dtype].storage
    np.testing.assert_array_equal(from_storage(stored, dtype), x.astype(kind).astype(np.float32))
    # 1.0625 is halfway between two numbers of e4m3 and is rounded to the even one.
    assert from_storage(stored, dtype)[4] == (1.0 if dtype == "fp8" else 1.0625)
