from __future__ import annotations

import importlib
from collections.abc import Callable

import pytest

from profiling.benchmark import Point, Skip, Task
from profiling.cuda import compute_capability, synchronize

Prepare = Callable[..., Task]
Enqueued = Callable[[Task], None]


@pytest.fixture(autouse=True)
def device() -> tuple[int, int]:
    """The device's compute capability. Whoever asks for GPU tests has one: a missing library or device fails them."""
    for module in ("cupy", "numba.cuda", "cuda.bench"):
        importlib.import_module(module)
    return compute_capability()


@pytest.fixture
def prepared() -> Prepare:
    """`prepared("matmul.gpu_numba", dtype="float32", n=7)`: the task of that point of a module under kernels.

    A device that lacks a unit, a type or the memory skips the test, with the reason.
    """

    def prepare(module: str, **params: str | int) -> Task:
        package, _, name = module.rpartition(".")
        params = {"impl": name.removeprefix("gpu_"), **params}
        point = Point(package.rpartition(".")[2], "gpu", params, seed=7)
        try:
            task: Task = importlib.import_module(f"kernels.{module}").prepare(point)
        except Skip as skip:
            pytest.skip(str(skip))
        return task

    return prepare


@pytest.fixture
def enqueued() -> Enqueued:
    """Checks that a task puts its work on the stream it is handed, and replays it from there."""

    def check(task: Task) -> None:
        import cupy

        stream = cupy.cuda.Stream()
        task.run(stream.ptr)  # compiles, loads and allocates what it needs
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

    return check
