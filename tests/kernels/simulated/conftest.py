"""A device for `prepare` and `verify`: Numba's simulator, and stand-ins for what `machine.nvidia.cuda` asks of CUDA."""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba.cuda.simulator import kernel, kernelapi

from accelbench.kernels.lib import random_array
from accelbench.kernels.lib.gpu import arrays
from accelbench.kernels.lib.gpu.numba_cuda import cuda, simulated
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point
from tests.kernels import host_cupy

assert simulated, "run with NUMBA_ENABLE_CUDASIM=1"

if hasattr(os, "sched_setaffinity"):
    # Python runs one of the simulated threads at a time, and hands its lock over faster within a CPU than between two.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

ATTRIBUTES = {
    "MultiProcessorCount": 2,
    "ClockRate": 1_980_000,
    "L2CacheSize": 1 << 12,
    "MaxSharedMemoryPerMultiprocessor": 228 << 10,
    "ReservedSharedMemoryPerBlock": 1 << 10,
    "MaxRegistersPerMultiprocessor": 1 << 16,
    "MaxThreadsPerMultiProcessor": 2048,
    "MaxBlocksPerMultiprocessor": 32,
}

Prepare = Callable[..., Task]


@pytest.fixture(autouse=True)
def threads_that_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator asks in a loop whether its threads live, and would keep them waiting for 5 ms whenever it may."""

    def is_alive(thread: threading.Thread) -> bool:
        time.sleep(0)
        return threading.Thread.is_alive(thread)

    monkeypatch.setattr(kernel.BlockThread, "is_alive", is_alive)


@pytest.fixture(autouse=True)
def aligned_shared_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator refuses to align a shared array, which changes no answer; an array is known by its source line."""

    def array(self: Any, shape: Any, dtype: Any, alignment: int | None = None) -> Any:
        caller = sys._getframe(1)
        place = caller.f_code.co_filename, caller.f_lineno
        return self._allocations.setdefault(place, np.empty(shape, np.dtype(str(dtype))))

    monkeypatch.setattr(kernelapi.FakeCUDAShared, "array", array)


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> Prepare:
    """`prepared("stream.gpu_numba", op="dot", dtype="float32")`: the task of that point on the simulated device."""
    stand_ins: dict[str, Any] = {
        "attribute": ATTRIBUTES.__getitem__,
        "compute_capability": lambda: (9, 0),
        "cupy_library": lambda: host_cupy.cupy,
        "free_memory": lambda: 1 << 30,
        "numba_stream": lambda handle: cuda.default_stream(),
        "registers_per_thread": lambda kernel, signature: 32,
        "require_compute_capability": lambda needed, what: None,
        "require_device_memory": lambda needed: None,
        "synchronize": lambda: None,
    }
    for name, stand_in in stand_ins.items():
        for module in [
            module
            for key, module in sys.modules.items()
            if key.startswith(("accelbench.kernels.", "accelbench.profiling."))
        ]:
            if hasattr(module, name):
                monkeypatch.setattr(module, name, stand_in)

    def prepare(module: str, **params: str | int) -> Task:
        package, _, name = module.rpartition(".")
        params = {"impl": name.removeprefix("gpu_"), **params}
        point = Point(package.rpartition(".")[2], "gpu", params, seed=7)
        task: Task = importlib.import_module(f"accelbench.kernels.{module}").prepare(point)
        return task

    return prepare


@pytest.fixture
def small_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of four times the stand-in's L2 cache of 4 KiB, of blocks that repeat within a grid's step."""
    monkeypatch.setattr(arrays, "MIN_BYTES", 4000)
    monkeypatch.setattr(arrays, "MOST_BYTES", 0)
    monkeypatch.setattr(random_array, "PERIODS", (67, 71))
    monkeypatch.setattr(random_array, "PART", 100)
