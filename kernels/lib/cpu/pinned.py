"""Threads pinned to one CPU each."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from types import TracebackType


class PinnedThreads:
    """One pinned thread for each of several CPUs; the threads of Numba's pool may migrate."""

    def __init__(self, cpus: Sequence[int]) -> None:
        self.cpus = tuple(cpus)
        self._pools = [ThreadPoolExecutor(1, f"cpu{cpu}", _stay_on, (cpu,)) for cpu in self.cpus]

    def __enter__(self) -> PinnedThreads:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, work: Callable[[int], object]) -> None:
        """Call work(0), work(1), … concurrently, each on its CPU; wait for all and raise the first error."""
        start = Barrier(len(self.cpus))

        def begin(thread: int) -> None:
            start.wait()
            work(thread)

        waiting = [pool.submit(begin, thread) for thread, pool in enumerate(self._pools)]
        for future in waiting:
            future.result()

    def close(self) -> None:
        """End the threads."""
        for pool in self._pools:
            pool.shutdown()


def _stay_on(cpu: int) -> None:
    os.sched_setaffinity(0, {cpu})
