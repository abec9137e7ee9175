"""Task of the GPU implementations of N-Queens, with the numbers of nodes and solutions below each task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from accelbench.kernels.lib.gpu.numba_cuda import cuda
from accelbench.kernels.treesearch.nqueens.borders import Tasks
from accelbench.kernels.treesearch.nqueens.counts import search_metrics, verify_search, work_below
from accelbench.kernels.treesearch.nqueens.prefixes import Prefixes
from accelbench.profiling.benchmark import Output, Task
from accelbench.profiling.machine.nvidia.cuda import synchronize
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification

POISON = 0x5A5A5A5A
"""Value that the counts of no task reach."""


class DeviceCounts:
    """Nodes and solutions below each task, as uint32 arrays on the device with at least one element."""

    def __init__(self, cut: Prefixes | Tasks) -> None:
        self.cut = cut
        self.nodes, self.solutions = (cuda.device_array(max(len(cut), 1), np.uint32) for _ in range(2))

    def poison(self) -> None:
        for array in (self.nodes, self.solutions):
            array.copy_to_device(np.full(array.shape, POISON, np.uint32))

    def on_host(self) -> tuple[Any, Any]:
        """Return (nodes, solutions) in the order of the tasks."""
        return self.nodes.copy_to_host()[: len(self.cut)], self.solutions.copy_to_host()[: len(self.cut)]


def gpu_task(
    point: Point,
    counts: DeviceCounts,
    run: Callable[..., None],
    bound: Callable[[int, float], dict[str, Metric]] | None = None,
) -> Task:
    """Return the task of `run(stream)`, which writes `counts`; `bound(nodes, seconds)` returns metrics of its bound."""

    def verify() -> Verification:
        counts.poison()
        run()
        synchronize()
        return verify_search(counts.cut, *counts.on_host(), point.rng())

    def metrics(seconds: float) -> dict[str, Metric]:
        nodes, solutions = counts.on_host()
        shares = bound(int(nodes.sum(dtype=np.uint64)), seconds) if bound else {}
        return search_metrics(counts.cut, nodes, solutions, seconds) | shares

    output = Output(read=counts.on_host, poison=counts.poison)
    return Task(run=run, verify=verify, work=work_below(counts.cut), metrics=metrics, output=output)
