"""The memory operations in Numba's CUDA simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.kernels.lib.gpu.arrays import put
from accelbench.kernels.lib.random_array import draw_normal, draw_whole
from accelbench.kernels.stream import gpu_numba as stream
from accelbench.kernels.stream import gpu_task
from accelbench.kernels.stream.gpu_task import longest_chain, verify_dot, verify_elements
from accelbench.kernels.stream.operations import SCALAR
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point
from tests.kernels import host_cupy

simulated = settings(max_examples=8, deadline=None)
seeds = st.integers(0, 2**32 - 1)
dtypes = st.sampled_from(sorted(stream.REAL))
# Of a vector (16 bytes), of what a grid of 2 × 32 threads loads at once, and of neither.
lengths = st.integers(1, 20) | st.sampled_from([128, 255, 256, 257, 512, 1023, 1024, 1025]) | st.integers(1, 2500)


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "THREADS", 32)  # simulated threads are slow
        yield


def run_on_random(op: str, dtype: str, length: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x, y = (rng.standard_normal(length, dtype=dtype) for _ in range(2))
    out = np.full(length, np.nan, dtype)
    stream.ELEMENTWISE[op, dtype][2, stream.THREADS](x, y, np.dtype(dtype).type(SCALAR), out)
    return x, y, out


def dot_of(x: np.ndarray, y: np.ndarray, blocks: int) -> float:
    sums, out = np.full(blocks, np.nan, x.dtype), np.full(1, np.nan, x.dtype)
    partial, total = stream.DOT[x.dtype.name]
    partial[blocks, stream.THREADS](x, y, sums)
    total[1, stream.THREADS](sums, out)
    return float(out[0])


@simulated
@given(length=lengths, op=st.sampled_from(sorted(stream.OPERATIONS)), seed=seeds, dtype=dtypes)
def test_every_element_is_written(length: int, op: str, seed: int, dtype: str) -> None:
    assert verify_elements(op, dtype, [run_on_random(op, dtype, length, seed)]).passed


@simulated
@given(length=lengths, blocks=st.integers(1, 3), seed=seeds, dtype=dtypes)
def test_every_product_is_summed_once(length: int, blocks: int, seed: int, dtype: str) -> None:
    rng = np.random.default_rng(seed)
    x, y = (rng.standard_normal(length, dtype=dtype) for _ in range(2))
    assert verify_dot(x.dtype, [(x, y)], dot_of(x, y, blocks), longest_chain(length, blocks, stream.THREADS)).passed


@pytest.mark.parametrize("place", [0, 255, 256, 1023, 1026])
def test_a_product_left_out_shows(place: int) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.random(1027) + 1 for _ in range(2))
    without = x.copy()
    without[place] = 0
    chain = longest_chain(len(x), 2, stream.THREADS)
    assert verify_dot(x.dtype, [(x, y)], dot_of(x, y, 2), chain).passed
    assert not verify_dot(x.dtype, [(x, y)], dot_of(without, y, 2), chain).passed


def test_nothing_beyond_the_arrays_is_touched() -> None:
    guarded = np.full((3, 1027 + 64), np.nan)
    x, y, out = (row[:1027] for row in guarded)
    x[:], y[:] = np.random.default_rng(0).standard_normal((2, 1027))
    for op in stream.OPERATIONS:
        stream.ELEMENTWISE[op, "float64"][2, stream.THREADS](x, y, SCALAR, out)
        assert verify_elements(op, x.dtype, [(x, y, out)]).passed
    assert np.isnan(guarded[:, 1027:]).all()


@pytest.fixture
def small_parts(small_arrays: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small arrays that are checked in several parts."""
    monkeypatch.setattr(gpu_task, "PART", 100)
    monkeypatch.setattr(gpu_task, "DOWNLOADED", 300)


@pytest.mark.parametrize("op", ["copy", "mul", "add", "triad", "dot"])
@pytest.mark.usefixtures("small_parts")
def test_a_prepared_point_verifies_itself(prepared: Callable[..., Task], op: str) -> None:
    task = prepared("stream.gpu_numba", op=op, dtype="float32")
    for _ in range(2):
        outcome = task.verify()
        assert outcome.passed, outcome
    assert task.work.bytes == {"copy": 2, "mul": 2, "dot": 2}.get(op, 3) * (4 << 12)


@pytest.mark.usefixtures("small_parts", "prepared")
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_the_device_holds_the_numbers_that_the_host_forms_again(dtype: str) -> None:
    rng = np.random.default_rng(3)
    numbers = draw_whole(rng, 15) if dtype == "int32" else draw_normal(rng, dtype)
    array = host_cupy.empty(3001, dtype)
    put(numbers, array)
    host = array.get()
    for begin, end in ((0, 3001), (99, 100), (101, 2950), (3000, 3001)):
        formed = np.concatenate(list(numbers.parts(begin, end))).astype(dtype)
        assert formed.tobytes() == host[begin:end].tobytes()


def copy_by(read: Callable[[np.ndarray], np.ndarray]) -> Callable[..., Callable[[int], None]]:
    """A copy that finds each of its elements where `read` says."""

    def bind(x: Any, y: Any, sums: Any, out: Any) -> Callable[[int], None]:
        return lambda stream: out.set(read(x.get()))

    return bind


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda x: np.roll(x, 67), id="a period of one factor away"),
        pytest.param(lambda x: np.roll(x, 71), id="a period of the other away"),
        pytest.param(lambda x: np.resize(x[: 67 * 8], len(x)), id="always the same short piece"),
        pytest.param(lambda x: np.where(np.arange(len(x)) == 1999, x[1999 - 67], x), id="one element from elsewhere"),
        pytest.param(lambda x: np.where(np.arange(len(x)) == 2000, np.float32(np.nan), x), id="one not written"),
        pytest.param(lambda x: np.nextafter(x, np.float32(9)), id="off by one bit"),
    ],
)
@pytest.mark.usefixtures("small_parts", "prepared")
def test_a_copy_that_reads_the_wrong_element_fails(read: Callable[[np.ndarray], np.ndarray]) -> None:
    point = Point("stream", "gpu", {"impl": "own", "op": "copy", "dtype": "float32"}, seed=7)
    assert gpu_task.make_task(point, copy_by(lambda x: x)).verify().passed
    outcome = gpu_task.make_task(point, copy_by(read)).verify()
    assert not outcome.passed
    assert outcome.tolerance == 0


@pytest.mark.parametrize("fault", ["one product left out", "one product twice", "y of a period away"])
@pytest.mark.usefixtures("small_parts", "prepared")
def test_a_dot_product_is_held_to_its_last_product(fault: str) -> None:
    def faulty(x: Any, y: Any) -> Any:
        if fault == "y of a period away":
            return x @ np.roll(y, 67)
        return x @ y + (x[2000] * y[2000] if fault == "one product twice" else -x[2000] * y[2000])

    def bind_to(dot: Callable[[Any, Any], Any]) -> Callable[..., Callable[[int], None]]:
        def bind(x: Any, y: Any, sums: Any, out: Any) -> Callable[[int], None]:
            return lambda stream: out.set(np.array([dot(x.get(), y.get())], out.dtype))

        return bind

    point = Point("stream", "gpu", {"impl": "own", "op": "dot", "dtype": "float32"}, seed=7)
    assert gpu_task.make_task(point, bind_to(np.dot)).verify().passed
    outcome = gpu_task.make_task(point, bind_to(faulty)).verify()
    assert not outcome.passed
    assert "exactly" in outcome.method
