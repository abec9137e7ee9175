"""norm, softmax-xent and optimizer-step in Numba's CUDA simulator, and CuPy's array operations done by NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.kernels.lib.gpu import array_task
from accelbench.kernels.lib.random_array import draw_normal
from accelbench.kernels.norm import gpu_numba as norm
from accelbench.kernels.norm import reference as norm_reference
from accelbench.kernels.optimizer_step import gpu_numba as optimizer_step
from accelbench.kernels.optimizer_step import reference as optimizer_reference
from accelbench.kernels.softmax_xent import gpu_numba as softmax_xent
from accelbench.kernels.softmax_xent import reference as softmax_reference
from accelbench.profiling.benchmark import Task
from tests.kernels import host_cupy

POINTS: list[tuple[str, dict[str, int]]] = [("norm", {"width": 517}), ("softmax_xent", {"vocabulary": 1031})]
POINTS += [("optimizer_step", {})]

few = settings(max_examples=8, deadline=None)
# Of a vector (4), of what 32 threads load at once (128), one column, and of neither.
widths = st.integers(1, 9) | st.sampled_from([127, 128, 129, 132, 259]) | st.integers(1, 300)
seeds = st.integers(0, 2**32 - 1)


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (norm, softmax_xent, optimizer_step):
            patch.setattr(module, "THREADS", 32)  # simulated threads are slow
        yield


def guarded(length: int) -> tuple[Any, Any]:
    """An array of NaN, and the same with what lies behind it."""
    whole = np.full(length + 64, np.nan, np.float32)
    return whole[:length], whole


@few
@given(rows=st.integers(1, 4), width=widths, seed=seeds)
def test_every_row_is_normalized_and_nothing_beyond_is_written(rows: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(rows * width, np.float32)
    scale = norm_reference.draw_scale(rng, width)
    out, whole = guarded(rows * width)
    norm.KERNEL[rows, norm.THREADS](x, scale, out, width)
    assert norm_reference.verify_norm([([x, scale], [out])]).passed
    assert np.isnan(whole[rows * width :]).all()


@few
@given(rows=st.integers(1, 4), width=widths, seed=seeds)
def test_every_row_has_its_loss_and_its_gradient(rows: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = 100 + 4 * rng.standard_normal(rows * width, np.float32)
    labels = softmax_reference.draw_labels(rng, rows, width)
    losses, (gradient, whole) = np.full(rows, np.nan, np.float32), guarded(rows * width)
    softmax_xent.KERNEL[rows, softmax_xent.THREADS](scores, labels, losses, gradient, width)
    assert softmax_reference.verify_cross_entropy([([scores, labels], [losses, gradient])], rows).passed
    assert np.isnan(whole[rows * width :]).all()


@few
@given(length=widths, seed=seeds)
def test_every_parameter_takes_one_step(length: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    before = [rng.standard_normal(length, np.float32) for _ in range(4)]
    before[3] **= 2
    after = [array.copy() for array in before]
    optimizer_step.KERNEL[2, optimizer_step.THREADS](*after)
    parameter, gradient, mean, square = after
    assert np.array_equal(gradient, before[1])
    assert optimizer_reference.verify_step([(before, [parameter, mean, square])]).passed


@pytest.mark.usefixtures("small_arrays")
@pytest.mark.parametrize(("name", "params"), POINTS)
def test_a_prepared_point_verifies_itself(prepared: Callable[..., Task], name: str, params: dict[str, int]) -> None:
    task = prepared(f"{name}.gpu_numba", **params)
    for _ in range(2):
        outcome = task.verify()
        assert outcome.passed, outcome
    assert task.metrics is not None
    length = 4096 // params["width"] * params["width"] if name == "norm" else None
    if length:
        assert task.work.bytes == 4 * (2 * length + params["width"])
    if name == "optimizer_step":
        assert task.work.bytes == 28 * task.metrics(1.0)["parameters"].value


@pytest.mark.usefixtures("small_arrays")
@pytest.mark.parametrize(
    ("name", "params"), [*POINTS, ("reduce", {"dtype": "int32"}), ("reduce", {"dtype": "float64"})]
)
def test_the_array_operations_of_cupy_give_the_same_answers_by_numpy(
    prepared: Callable[..., Task], name: str, params: dict[str, int | str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from contextlib import nullcontext
    from types import SimpleNamespace

    on_host = SimpleNamespace(**{**vars(np), **vars(host_cupy.cupy)})
    monkeypatch.setattr(array_task, "cupy_library", lambda: on_host)
    monkeypatch.setattr(array_task, "cupy_stream", lambda handle: nullcontext())
    outcome = prepared(f"{name}.gpu_cupy", **params).verify()
    assert outcome.passed, outcome


@pytest.mark.usefixtures("small_arrays", "prepared")
def test_an_array_between_two_places_is_what_its_parts_are() -> None:
    numbers = draw_normal(np.random.default_rng(3), "float32")
    assert numbers.between(99, 950).tobytes() == np.concatenate(list(numbers.parts(99, 950))).tobytes()
