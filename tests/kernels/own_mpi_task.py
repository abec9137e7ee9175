"""A task for the process that holds a rank's place in MPI, which needs no MPI."""

from __future__ import annotations

import os

from accelbench.profiling.benchmark import Skip, Task, Together
from accelbench.profiling.ranks.world import world
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work


class OddError(Exception):
    """An error that cannot be made of its message alone."""

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
