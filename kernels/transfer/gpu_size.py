"""Copy of one size between host and device memory, from the call to the end of the wait.

Bound: the link (PCIe 4.0 x16: 32 GB/s each way, 5.0: 63, less some 10 % for its packets), for small sizes the time of
the call. Not measured yet on a GPU.
"""

from __future__ import annotations

from accelbench.kernels.lib.gpu.device_code import DeviceKernel
from accelbench.kernels.transfer.copies import Copies
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Verification
from accelbench.profiling.records.work import Work


def device_code() -> list[DeviceKernel]:
    """Return no kernel: the copy engines work."""
    return []


def prepare(point: Point) -> Task:
    """Prepare random bytes; Skip where host or device memory does not suffice."""
    copies = Copies(point)
    size = copies.largest

    def run() -> None:
        copies.copy(size)

    def verify() -> Verification:
        return copies.verify((size,))

    return Task(run=run, verify=verify, work=Work(bytes=len(copies.ways) * size), timer="host")
