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
"""Launches per execution: 1,000 take milliseconds and do not fill the driver's queue of 1,024."""

Launch = Callable[[], object]


@dataclass(frozen=True)
class Kernels:
    """An empty and a counting kernel, each of one block of one thread."""

    empty: Callable[[int], Launch]
    """Returns the launch function of the empty kernel for a stream handle, which is that of CuPy's current stream."""
    count: Callable[[int], Launch]
    """Returns the launch function of a kernel that adds 1 to a counter in device memory, likewise."""
    take_count: Callable[[], int]
    """Waits for the device, returns the counter and resets it to 0."""


def execution(mode: str, launch_on: Callable[[int], Launch]) -> Callable[[], object]:
    """Return the function that does one execution of a mode and waits for the device."""
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
    """Return the function that replays a CUDA graph of `launches` consecutive nodes and waits for the device.

    One launch precedes the capture, because compiling and loading a kernel is not allowed during a capture.
    """
    cuda = cupy_library().cuda
    if cuda.runtime.is_hip:
        raise Skip("CuPy does not support graph capture on ROCm")
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
    """Return the host-timed task of launching the empty kernel, verified by the counting kernel."""
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
