"""Copies of several sizes between host and device memory, and a line fitted to their times.

Bound: the link (PCIe 4.0 x16: 32 GB/s per direction, 5.0: 63 GB/s, minus some 10 % protocol overhead); for small sizes
the call. On an H100 SXM with PCIe 5.0 x16: 56 to 58 GB/s between pinned memory and the device, 98 GB/s in both
directions together.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter_ns

from accelbench.kernels.lib.gpu.device_code import DeviceKernel
from accelbench.kernels.transfer import SMALLEST_KIB
from accelbench.kernels.transfer.copies import Copies
from accelbench.kernels.transfer.fit import fit_line
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work

APART = 4
"""Factor between consecutive sizes: ten sizes from 4 KiB to 1 GiB."""


def device_code() -> list[DeviceKernel]:
    """Return an empty list: the copy engines need no kernel."""
    return []


def sizes_up_to(largest: int) -> tuple[int, ...]:
    """Return the sizes of the copies in bytes, in ascending order."""
    sizes = []
    size = SMALLEST_KIB * 1024
    while size < largest:
        sizes.append(size)
        size *= APART
    return (*sizes, largest)


def prepare(point: Point) -> Task:
    """Prepare random bytes; Skip without enough host or device memory."""
    copies = Copies(point)
    sizes = sizes_up_to(copies.largest)
    times: dict[int, list[float]] = {size: [] for size in sizes}
    each_way = len(copies.ways)

    def run() -> None:
        for size in sizes:
            begin = perf_counter_ns()
            copies.copy(size)
            times[size].append((perf_counter_ns() - begin) * 1e-9)

    def verify() -> Verification:
        return copies.verify(sizes)

    def metrics(_seconds: float) -> dict[str, Metric]:
        line = fit_line([each_way * size for size in sizes], [median(times[size]) for size in sizes])
        return {
            "latency": Metric(line.latency, "s"),
            "bandwidth": Metric(line.bandwidth, "B/s"),
            "relative residual": Metric(line.residual),
            **copies.link(),
        }

    return Task(run=run, verify=verify, work=Work(items=len(sizes), item="copies"), timer="host", metrics=metrics)
