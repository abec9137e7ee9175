"""One of several GPUs of a process, with its own host thread, stream and task."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Barrier
from typing import Any, TypeVar

from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.machine.nvidia.cuda import library, use_device
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Verification

START_S = 60.0
"""Seconds within which every GPU must reach the start of a window; one that does not has failed."""

Result = TypeVar("Result")


class Card:
    """Visible GPU number `index`, used from one host thread only, because CUDA's current device is a thread's state.

    Every error raised in that thread names the GPU.
    """

    def __init__(self, index: int, pci_bus_id: str) -> None:
        self.index, self.name = index, f"card {index} ({pci_bus_id})"
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=self.name)
        self._task: Task
        self._stream: Any = None

    @property
    def task(self) -> Task:
        """Task made by `prepare`."""
        return self._task

    def prepare(self, make: Callable[[Point], Task], point: Point) -> Future[None]:
        """Prepare the point on this GPU, with its own random inputs."""
        return self._do(self._prepare, make, dataclasses.replace(point, seed=point.seed + self.index))

    def verify(self) -> Future[Verification]:
        """Verify the result of this GPU."""
        return self._do(lambda: self._task.verify())

    def work(self, executions: int, start: Barrier) -> Future[float]:
        """Do `executions` executions when all GPUs are at the barrier; return the seconds of one, by CUDA events."""
        return self._do(self._work, executions, start)

    def _prepare(self, make: Callable[[Point], Task], point: Point) -> None:
        use_device(self.index)
        self._task = make(point)
        self._stream = library("cupy").cuda.Stream(non_blocking=True)

    def _work(self, executions: int, start: Barrier) -> float:
        cuda = library("cupy").cuda
        began, ended = cuda.Event(), cuda.Event()
        start.wait(START_S)
        began.record(self._stream)
        for _ in range(executions):
            self._task.run(self._stream.ptr)
        ended.record(self._stream)
        ended.synchronize()
        return float(cuda.get_elapsed_time(began, ended)) / 1e3 / executions

    def _do(self, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
        def named() -> Result:
            try:
                return function(*arguments)
            except Skip as skip:
                raise Skip(f"{self.name}: {skip}") from skip
            except Exception as error:
                raise RuntimeError(f"{self.name}: {type(error).__name__}: {error}") from error

        return self._thread.submit(named)
