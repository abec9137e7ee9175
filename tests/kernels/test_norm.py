"""Root-mean-square norm: correct for rows of any length, and wrong results fail the verification."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.kernels.lib.cpu import array_task as cpu
from accelbench.kernels.lib.cpu.arrays import aligned_empty
from accelbench.kernels.lib.cpu.threads import thread_count
from accelbench.kernels.norm import cpu_numba, norm, reference
from accelbench.profiling.records.point import Point


def point(impl: str, width: int) -> Point:
    return Point("norm", "cpu", {"impl": impl, "width": width}, seed=7)


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "rows_per_array", lambda width, threads, itemsize: 10 * threads)


@pytest.mark.parametrize("impl", ["numba", "vendor"])
@pytest.mark.parametrize("width", [1, 1000, 8192])
@pytest.mark.usefixtures("few_rows")
def test_every_implementation_is_verified_and_counts_one_read_and_one_write(impl: str, width: int) -> None:
    task = norm(point(impl, width))
    task.run()
    outcome = task.verify()
    assert outcome.passed, outcome
    rows = 10 * (thread_count() if impl == "numba" else 1)
    assert task.work.bytes == 4 * (2 * rows * width + width)


@settings(deadline=None, max_examples=60)
@given(
    rows=st.integers(1, 5),
    width=st.integers(1, 40) | st.integers(1, 700),
    threads=st.integers(1, 3),
    magnitude=st.sampled_from([1e-9, 1e-3, 1.0, 1e6]),
    seed=st.integers(0, 2**32 - 1),
)
def test_rows_of_any_length_are_normalized_and_nothing_beyond_is_written(
    rows: int, width: int, threads: int, magnitude: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x = np.float32(magnitude) * rng.standard_normal(rows * width, np.float32)
    scale = reference.draw_scale(rng, width)
    whole = aligned_empty(rows * width + 64, np.float32)
    whole.fill(np.nan)
    out = whole[: rows * width]
    cpu_numba.normalize_on_all(x, scale, out, threads)
    outcome = reference.verify_norm([([x, scale], [out])])
    assert outcome.passed, outcome
    assert np.isnan(whole[rows * width :]).all()


def wrong(fault: str, x: Any, scale: Any, out: Any) -> None:
    x, out = (array.reshape(-1, len(scale)) for array in (x, out))
    mean = np.mean(x.astype(np.float64) ** 2, axis=1, keepdims=True)
    if fault == "without epsilon":
        out[:] = x / np.sqrt(mean) * scale
    elif fault == "sum instead of mean":
        out[:] = x / np.sqrt(mean * x.shape[1] + reference.EPSILON) * scale
    elif fault == "without the scale":
        out[:] = x / np.sqrt(mean + reference.EPSILON)
    elif fault == "mean subtracted":
        reference.normalize(np, x - x.mean(axis=1, keepdims=True), scale, out)
    elif fault == "element missing in the sum":
        least = np.mean(np.square(x[:, 1:], dtype=np.float64), axis=1, keepdims=True)
        out[:] = x / np.sqrt(least + reference.EPSILON) * scale
    elif fault == "one element not written":
        reference.normalize(np, x, scale, out)
        out[-1, -1] = np.nan


@pytest.mark.parametrize(
    "fault",
    [
        "nothing written",
        "without epsilon",
        "sum instead of mean",
        "without the scale",
        "mean subtracted",
        "element missing in the sum",
        "one element not written",
    ],
)
@pytest.mark.usefixtures("few_rows")
def test_a_wrong_norm_fails(fault: str) -> None:
    own = point("own", 8192)
    task = cpu.array_task(own, reference.problem(own), lambda *arguments: wrong(fault, *arguments[:3]))
    assert not task.verify().passed
