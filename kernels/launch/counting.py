"""What both implementations of launch share: how many launches an execution makes, and how they are verified."""

from __future__ import annotations

from collections.abc import Callable

from profiling.benchmark import Metric, Point, Task, Verification, Work

LAUNCHES = {"latency": 1, "throughput": 1000}
"""1,000 launches take milliseconds, and stay under the 1,024 that the driver queues before a launch blocks."""


def make_task(
    point: Point,
    launch_empty: Callable[[], object],
    synchronize: Callable[[], object],
    count_launches: Callable[[], int],
) -> Task:
    """A host-timed task around `launch_empty`; `count_launches` launches a counting kernel as often and reads it."""
    launches = LAUNCHES[point["mode"]]

    def run() -> None:
        for _ in range(launches):
            launch_empty()
        synchronize()

    def verify() -> Verification:
        found = count_launches()
        return Verification(
            passed=found == launches,
            method="a counting kernel launched the same way",
            expected=str(launches),
            found=str(found),
        )

    def metrics(seconds: float) -> dict[str, Metric]:
        return {"time_per_launch": Metric(seconds / launches, "s")}

    return Task(run=run, verify=verify, work=Work(items=launches, item="launches"), timer="host", metrics=metrics)
