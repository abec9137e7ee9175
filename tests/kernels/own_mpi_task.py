"""Task for the MPI process of a rank that needs no MPI."""

from __future__ import annotations

import os

from accelbench import Metric, Point, Skip, Task, Verification, Work
from accelbench.profiling.benchmark import Together
from accelbench.profiling.ranks.world import world


class OddError(Exception):
    """Error that cannot be pickled, because its constructor has two arguments."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first + second)


def prepare_in_mpi(point: Point) -> Task:
    def run() -> None:
        if point["how"] == "raise":
            raise ValueError("the input is odd")
        if point["how"] == "raise oddly":
            raise OddError("how ", "odd")
        if point["how"] == "vanish":
            os._exit(7)

    if point["how"] == "skip":
        raise Skip("this rank lacks something")
    here, pid = world(), os.getpid()
    return Task(
        run=run,
        verify=lambda: Verification(passed=True, method=str(pid), expected=str(here.rank), found=str(point.seed)),
        work=Work(bytes=5),
        metrics=lambda seconds: {"latency": Metric(seconds / 2, "s")},
        sample=lambda loops: loops / 10,
        together=Together(follow=run, finish=run),
    )
