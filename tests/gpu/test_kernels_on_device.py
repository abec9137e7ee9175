"""Every GPU kernel on a real device: it runs on a stream of its own and its answer is right."""

from __future__ import annotations

from importlib import import_module

import pytest

from profiling.benchmark import Point, Skip, Task
from profiling.cuda import synchronize

pytestmark = pytest.mark.gpu


def prepared(benchmark: str, implementation: str, **params: str | int) -> Task:
    """The task of that point; a device that lacks a type or the memory skips it, with the reason."""
    try:
        task: Task = import_module(f"kernels.{benchmark}.gpu_{implementation}").prepare(
            Point(benchmark, "gpu", {"impl": implementation, **params}, seed=7)
        )
    except Skip as skip:
        pytest.skip(str(skip))
    return task


def check(task: Task) -> None:
    outcome = task.verify()
    assert outcome.passed, outcome


@pytest.mark.parametrize("n", [1, 31, 1024, 2049])
@pytest.mark.parametrize("dtype", ["float64", "float32", "tf32", "float16", "bfloat16"])
def test_cublas_multiplies_matrices(dtype: str, n: int) -> None:
    check(prepared("matmul", "vendor", dtype=dtype, n=n))


@pytest.mark.parametrize("n", [1, 7, 129, 1024, 2049])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_our_kernel_multiplies_matrices(dtype: str, n: int) -> None:
    check(prepared("matmul", "numba", dtype=dtype, n=n))


@pytest.mark.parametrize("op", ["copy", "mul", "add", "triad", "dot"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("implementation", ["numba", "cupy"])
def test_stream_moves_every_element(implementation: str, dtype: str, op: str) -> None:
    check(prepared("stream", implementation, dtype=dtype, op=op))


@pytest.mark.parametrize("queens", [1, 2, 3, 8, 12, 14, 16])
def test_search_finds_the_published_counts(queens: int) -> None:
    check(prepared("nqueens", "prefix", queens=queens))


@pytest.mark.parametrize("mode", ["latency", "throughput"])
@pytest.mark.parametrize("implementation", ["numba", "cupy"])
def test_launches_reach_the_device(implementation: str, mode: str) -> None:
    task = prepared("launch", implementation, mode=mode)
    task.run()
    check(task)


@pytest.mark.parametrize(
    ("benchmark", "implementation", "params"),
    [
        ("matmul", "vendor", {"dtype": "float32", "n": 512}),
        ("matmul", "numba", {"dtype": "float32", "n": 512}),
        ("stream", "numba", {"dtype": "float32", "op": "dot"}),
        ("stream", "cupy", {"dtype": "float32", "op": "dot"}),
        ("nqueens", "prefix", {"queens": 12}),
    ],
)
def test_work_is_enqueued_on_the_stream_that_is_handed_over(
    benchmark: str, implementation: str, params: dict[str, str | int]
) -> None:
    import cupy

    stream = cupy.cuda.Stream()
    task = prepared(benchmark, implementation, **params)
    task.run(stream.ptr)  # compiles and loads what it needs
    synchronize()
    with stream:
        stream.begin_capture(mode=cupy.cuda.runtime.streamCaptureModeGlobal)
    try:
        # In this mode it is an error to use the default stream, to wait or to allocate.
        task.run(stream.ptr)
    finally:
        with stream:
            graph = stream.end_capture()
    graph.launch(stream)
    stream.synchronize()
