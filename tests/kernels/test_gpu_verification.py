"""The checks that GPU kernels are held to: they pass what rounding explains, and fail what it does not."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.matmul.accuracy import verify_product
from kernels.matmul.gpu_vendor import from_storage, to_storage
from kernels.stream.gpu_arrays import longest_chain, verify_dot, verify_elements
from kernels.stream.operations import SCALAR


def rounded_to_tf32(x: Any) -> Any:
    return ((x.view(np.uint32) + 0x1000) & 0xFFFFE000).view(np.float32)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("n", [1, 2, 63, 512])
def test_a_product_computed_in_its_own_precision_passes(dtype: str, n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = (from_storage(to_storage(rng.standard_normal((n, n), np.float32), dtype), dtype) for _ in range(2))
    wide = np.float64 if dtype == "float64" else np.float32
    c = from_storage(to_storage(a.astype(wide) @ b.astype(wide), dtype), dtype)
    assert verify_product(a, b, c, dtype, rng).passed


def test_tensor_cores_cannot_pass_their_tf32_off_as_float32() -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((512, 512), np.float32) for _ in range(2))
    c = rounded_to_tf32(a) @ rounded_to_tf32(b)
    assert verify_product(a, b, c, "tf32", rng).passed
    assert not verify_product(a, b, c, "float32", rng).passed


@given(n=st.integers(1, 40), data=st.data())
def test_one_unwritten_element_fails(n: int, data: st.DataObject) -> None:
    rng = np.random.default_rng(n)
    a, b = (rng.standard_normal((n, n)) for _ in range(2))
    c = a @ b
    c[data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, n - 1))] = np.nan
    assert not verify_product(a, b, c, "float64", rng).passed


@given(
    st.lists(
        st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**100), max_value=2.0**100),
        min_size=1,
    )
)
def test_bfloat16_is_rounded_as_ml_dtypes_rounds_it(values: list[float]) -> None:
    x = np.array(values, np.float32)
    np.testing.assert_array_equal(
        from_storage(to_storage(x, "bfloat16"), "bfloat16"), x.astype(ml_dtypes.bfloat16).astype(np.float32)
    )


@pytest.mark.parametrize("op", ["copy", "mul", "add", "triad"])
@given(position=st.integers(0, 99), wrong=st.sampled_from([np.nan, 0.0, 1.001]))
def test_one_wrong_stream_element_fails(op: str, position: int, wrong: float) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(100, np.float32) for _ in range(2))
    s = np.float32(SCALAR)
    out = {"copy": x.copy(), "mul": s * x, "add": x + y, "triad": x + s * y}[op]
    assert verify_elements(op, x, y, out).passed
    out[position] *= wrong
    assert not verify_elements(op, x, y, out).passed


def test_a_dot_product_that_misses_a_block_fails() -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(100_000, np.float32) for _ in range(2))
    chain = longest_chain(len(x), 64, 256)
    assert verify_dot(x, y, float(np.dot(x, y)), chain).passed
    assert not verify_dot(x, y, float(np.dot(x[256:], y[256:])), chain).passed
    assert not verify_dot(x, y, float("nan"), chain).passed
