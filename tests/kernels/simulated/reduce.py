"""The sum in Numba's CUDA simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.kernels.lib.exact import draw, verify_sum
from accelbench.kernels.lib.gpu.array_task import array_task
from accelbench.kernels.reduce import gpu_numba as reduce
from accelbench.kernels.reduce.reference import SUM_TYPE, problem
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reduce, "THREADS", 32)  # simulated threads are slow
        yield


def sum_by_blocks(x: np.ndarray, blocks: int) -> float:
    sum_type = SUM_TYPE[x.dtype.name]
    sums, out = np.full(blocks, 77, sum_type), np.full(1, 77, sum_type)
    reduce.launch(x, sums, out)
    return out[0]


@settings(max_examples=10, deadline=None)
@given(length=st.integers(1, 2000), dtype=st.sampled_from(sorted(SUM_TYPE)), seed=st.integers(0, 2**32 - 1))
def test_every_element_is_summed_once(length: int, dtype: str, seed: int) -> None:
    x = np.empty(length, dtype)
    expected = draw(np.random.default_rng(seed), x)
    assert verify_sum(expected, sum_by_blocks(x, 3)).passed


@pytest.mark.parametrize("place", [0, 255, 256, 699])
def test_an_element_left_out_shows(place: int) -> None:
    x = np.empty(700, np.float32)
    expected = draw(np.random.default_rng(1), x)
    x[place] += 1
    assert not verify_sum(expected, sum_by_blocks(x, 2)).passed


def test_int32_does_not_overflow() -> None:
    x = np.full(1000, np.iinfo(np.int32).max, np.int32)
    assert sum_by_blocks(x, 2) == 1000 * np.iinfo(np.int32).max


@pytest.mark.usefixtures("small_arrays")
@pytest.mark.parametrize("dtype", sorted(SUM_TYPE))
def test_a_prepared_point_verifies_itself(prepared: Callable[..., Task], dtype: str) -> None:
    task = prepared("reduce.gpu_numba", dtype=dtype)
    for _ in range(2):
        outcome = task.verify()
        assert outcome.passed, outcome
    assert task.work.bytes == 4 << 12


@pytest.mark.usefixtures("small_arrays", "prepared")
@pytest.mark.parametrize("dtype", sorted(SUM_TYPE))
@pytest.mark.parametrize("place", [0, 66, 67, 2000, -1])
@pytest.mark.parametrize("fault", ["left out", "twice", "not written"])
def test_every_element_that_is_left_out_or_added_twice_shows(dtype: str, place: int, fault: str) -> None:
    def bind(x: Any, out: Any) -> Callable[[int], None]:
        def run(stream: int) -> None:
            numbers = x.get()
            wrong = {"left out": -numbers[place], "twice": numbers[place]}.get(fault)
            if wrong is not None:
                out.set(np.array([numbers.sum(dtype=np.float64) + wrong], out.dtype))

        return run

    point = Point("reduce", "gpu", {"impl": "own", "dtype": dtype}, seed=7)
    assert not array_task(point, problem(point), bind).verify().passed
