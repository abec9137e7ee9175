"""Copy of one size between host and device memory by the driver, timed from the call until it is complete.

Bound: the link (PCIe 4.0 x16: 32 GB/s per direction, 5.0: 63 GB/s, minus some 10 % protocol overhead); for small sizes
the call. Not measured yet on a GPU.
"""

from __future__ import annotations

from accelbench.kernels.lib.gpu.device_code import DeviceKernel
from accelbench.kernels.transfer.copies import Copies
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work


def device_code() -> list[DeviceKernel]:
    """Return an empty list: the copy engines need no kernel."""
    return []


def prepare(point: Point) -> Task:
    """Prepare random bytes; Skip without enough host or device memory."""
    copies = Copies(point)
    size = copies.largest

    def run() -> None:
        copies.copy(size)

    def verify() -> Verification:
        return copies.verify((size,))

    def metrics(_seconds: float) -> dict[str, Metric]:
        return copies.link()

    return Task(run=run, verify=verify, work=Work(bytes=len(copies.ways) * size), timer="host", metrics=metrics)
