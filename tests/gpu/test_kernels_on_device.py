"""Every GPU kernel on a real device: it runs on a stream of its own and its answer is right."""

from __future__ import annotations

import pytest

from accelbench.profiling.benchmark import Task
from tests.gpu.conftest import Enqueued, Prepare

pytestmark = pytest.mark.gpu


def check(task: Task) -> None:
    outcome = task.verify()
    assert outcome.passed, outcome


@pytest.mark.parametrize("op", ["copy", "mul", "add", "triad", "dot"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("implementation", ["numba", "cupy"])
def test_stream_moves_every_element(prepared: Prepare, implementation: str, dtype: str, op: str) -> None:
    check(prepared(f"stream.gpu_{implementation}", dtype=dtype, op=op))


@pytest.mark.parametrize("queens", [1, 2, 3, 8, 12, 14, 16])
def test_search_finds_the_published_counts(prepared: Prepare, queens: int) -> None:
    check(prepared("treesearch.nqueens.gpu_prefix", queens=queens))


@pytest.mark.parametrize("mode", ["latency", "throughput"])
@pytest.mark.parametrize("implementation", ["numba", "cupy"])
def test_launches_reach_the_device(prepared: Prepare, implementation: str, mode: str) -> None:
    task = prepared(f"launch.gpu_{implementation}", mode=mode)
    task.run()
    check(task)


@pytest.mark.parametrize(
    ("module", "params"),
    [
        ("matmul.gpu_vendor", {"dtype": "float32", "n": 512}),
        ("matmul.gpu_numba", {"dtype": "float32", "n": 512}),
        ("stream.gpu_numba", {"dtype": "float32", "op": "dot"}),
        ("stream.gpu_cupy", {"dtype": "float32", "op": "dot"}),
        ("treesearch.nqueens.gpu_prefix", {"queens": 12}),
    ],
)
def test_work_is_enqueued_on_the_stream_that_is_handed_over(
    prepared: Prepare, enqueued: Enqueued, module: str, params: dict[str, str | int]
) -> None:
    enqueued(prepared(module, **params))
