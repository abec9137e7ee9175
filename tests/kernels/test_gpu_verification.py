"""Checks of GPU kernels: rounding errors pass, and other errors fail."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.kernels.stream.accuracy import verify_elements
from accelbench.kernels.stream.gpu_task import longest_chain, verify_dot
from accelbench.kernels.stream.operations import SCALAR


@pytest.mark.parametrize("op", ["copy", "mul", "add", "triad"])
@given(position=st.integers(0, 99), wrong=st.sampled_from([np.nan, 0.0, 1.001]))
def test_one_wrong_stream_element_fails(op: str, position: int, wrong: float) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(100, np.float32) for _ in range(2))
    s = np.float32(SCALAR)
    out = {"copy": x.copy(), "mul": s * x, "add": x + y, "triad": x + s * y}[op]
    assert verify_elements(op, x.dtype, [(x, y, out)]).passed
    out[position] *= wrong
    assert not verify_elements(op, x.dtype, [(x, y, out)]).passed


def test_a_dot_product_that_misses_a_block_fails() -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(100_000, np.float32) for _ in range(2))
    chain = longest_chain(len(x), 64, 256)
    assert verify_dot(x.dtype, [(x, y)], float(np.dot(x, y)), chain).passed
    assert not verify_dot(x.dtype, [(x, y)], float(np.dot(x[256:], y[256:])), chain).passed
    assert not verify_dot(x.dtype, [(x, y)], float("nan"), chain).passed
