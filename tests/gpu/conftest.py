from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator

import psutil
import pytest

from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.machine.nvidia.cuda import compute_capability, synchronize
from accelbench.profiling.machine.nvidia.libcuda import CudaDevice, CudaError, Driver, NoDriver
from accelbench.profiling.machine.nvidia.nvml import open_card, read
from accelbench.profiling.records.point import Point
from tests.requirements import not_tested

Prepare = Callable[..., Task]
Enqueued = Callable[[Task], None]


MOST_JOBS = 8
"""The most processes that test side by side: more only take turns on the card."""
JOB_BYTES = 8 << 30
"""Room on the card, and on the host, for the test that takes most: three arrays of 2 GiB, and checking them."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return how many processes `--numprocesses auto` starts: half as many as CPUs, as far as memory holds them."""
    try:
        devices = Driver().devices()
    except (NoDriver, CudaError):
        return 1  # there is nothing to test on, which each test says
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return jobs(cpus, psutil.virtual_memory().available, devices[0], shared=may_be_shared(devices[0]))


def jobs(cpus: int, host_bytes: int, card: CudaDevice, shared: bool) -> int:
    """Return how many processes test side by side; one where the card admits one process only."""
    return max(1, min(MOST_JOBS, cpus // 2, host_bytes // JOB_BYTES, card.memory_bytes // JOB_BYTES)) if shared else 1


def may_be_shared(card: CudaDevice) -> bool:
    """Return whether several processes may have a context on the card, as its compute mode says."""
    import pynvml

    handle = open_card(card.pci_bus_id)
    mode = None if handle is None else read(pynvml.nvmlDeviceGetComputeMode, handle)
    return mode in (None, pynvml.NVML_COMPUTEMODE_DEFAULT)


@pytest.fixture(autouse=True)
def memory_given_back() -> Iterator[None]:
    """Give back what a test had of the card's memory: CuPy's pool would keep it from the tests of other processes."""
    yield
    if "cupy" in sys.modules:
        sys.modules["cupy"].get_default_memory_pool().free_all_blocks()


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
            task: Task = importlib.import_module(f"accelbench.kernels.{module}").prepare(point)
        except Skip as skip:
            not_tested("gpu-unit", str(skip))
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
