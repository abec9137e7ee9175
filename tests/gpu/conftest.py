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
"""Maximum number of test processes: more would only share the GPU's time."""
JOB_BYTES = 8 << 30
"""GPU and host memory of the largest test in bytes: three arrays of 2 GiB, and their check."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return the number of processes for `--numprocesses auto`: half of the CPUs, limited by memory."""
    try:
        devices = Driver().devices()
    except (NoDriver, CudaError):
        return 1  # without a GPU every test fails with the reason
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return jobs(cpus, psutil.virtual_memory().available, devices[0], shared=may_be_shared(devices[0]))


def jobs(cpus: int, host_bytes: int, card: CudaDevice, shared: bool) -> int:
    """Return the number of test processes; 1 if the GPU admits only one process."""
    return max(1, min(MOST_JOBS, cpus // 2, host_bytes // JOB_BYTES, card.memory_bytes // JOB_BYTES)) if shared else 1


def may_be_shared(card: CudaDevice) -> bool:
    """Return whether the compute mode of the GPU allows contexts of several processes."""
    import pynvml

    handle = open_card(card.pci_bus_id)
    mode = None if handle is None else read(pynvml.nvmlDeviceGetComputeMode, handle)
    return mode in (None, pynvml.NVML_COMPUTEMODE_DEFAULT)


@pytest.fixture(autouse=True)
def memory_given_back() -> Iterator[None]:
    """Free the GPU memory of a test, which CuPy's pool would otherwise keep from other test processes."""
    yield
    if "cupy" in sys.modules:
        sys.modules["cupy"].get_default_memory_pool().free_all_blocks()


@pytest.fixture(autouse=True)
def device() -> tuple[int, int]:
    """Compute capability of the device. GPU tests run on request only, so a missing library or device fails them."""
    for module in ("cupy", "numba.cuda", "cuda.bench"):
        importlib.import_module(module)
    return compute_capability()


@pytest.fixture
def prepared() -> Prepare:
    """Function that prepares a task of `kernels`: `prepared("matmul.gpu_numba", dtype="float32", n=7)`.

    The test is skipped with the reason if the device lacks a unit, a type or the memory.
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
    """Function that checks that a task enqueues its work on the given stream, by capture and replay."""

    def check(task: Task) -> None:
        import cupy

        stream = cupy.cuda.Stream()
        task.run(stream.ptr)  # compiles, loads and allocates memory
        synchronize()
        with stream:
            stream.begin_capture(mode=cupy.cuda.runtime.streamCaptureModeGlobal)
        try:
            # In this mode the default stream, synchronisation and allocation are errors.
            task.run(stream.ptr)
        finally:
            with stream:
                graph = stream.end_capture()
        graph.launch(stream)
        stream.synchronize()

    return check
