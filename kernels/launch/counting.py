"""Task of the implementations of launch: one execution, and the check of its number of launches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.devices.cupy_device import cupy_library, synchronize
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Verification
from accelbench.profiling.records.work import Work

LAUNCHES = {"latency": 1, "throughput": 1000, "graph": 1000}
"""1,000 launches take milliseconds, and stay under the 1,024 that the driver queues before a launch blocks."""

Launch = Callable[[], object]


@dataclass(frozen=True)
class Kernels:
    """Two kernels of one block of one thread, and how many launches the second has counted."""

    empty: Callable[[int], Launch]
    """Returns a launch of the kernel that does nothing, on that handle's stream, which is CuPy's current stream."""
    count: Callable[[int], Launch]
    """Returns a launch of the kernel that adds 1 to a counter in device memory, on that stream."""
    take_count: Callable[[], int]
    """Returns the counter's value, once the device is done; it is 0 again afterwards."""


def execution(mode: str, launch_on: Callable[[int], Launch]) -> Callable[[], object]:
    """Return the function that does one execution of that mode; it returns when the device is done."""
    launches = LAUNCHES[mode]
    if mode == "graph":
        return replay(launches, launch_on)
    launch = launch_on(0)

    def run() -> None:
        for _ in range(launches):
            launch()
        synchronize()

    return run


def replay(launches: int, launch_on: Callable[[int], Launch]) -> Callable[[], object]:
    """Return the function that replays a CUDA graph of so many nodes in a row, captured from launches on a stream.

    A capture admits launches and little else; what a first launch does besides (compile, load the code) is done before.
    """
    cuda = cupy_library().cuda
    if cuda.runtime.is_hip:
        raise Skip("CuPy captures no graph on ROCm")
    stream = cuda.Stream(non_blocking=True)
    launch = launch_on(stream.ptr)
    with stream:
        launch()
        stream.synchronize()
        stream.begin_capture()
        try:
            for _ in range(launches):
                launch()
        finally:
            graph = stream.end_capture()

    def run() -> None:
        graph.launch(stream)
        stream.synchronize()

    return run


def make_task(point: Point, kernels: Kernels) -> Task:
    """Return a host-timed task of launching the empty kernel, verified by the counting one."""
    mode = str(point["mode"])
    launches = LAUNCHES[mode]
    count = execution(mode, kernels.count)

    def verify() -> Verification:
        kernels.take_count()
        count()
        found = kernels.take_count()
        return Verification(
            passed=found == launches,
            method="a counting kernel launched the same way",
            expected=str(launches),
            found=str(found),
        )

    return Task(
        run=execution(mode, kernels.empty),
        verify=verify,
        work=Work(items=launches, item="launches"),
        timer="host",
    )
