"""Small reads at random places of a large file by fio. Bound: the devices of the file system, and its network."""

from __future__ import annotations

from statistics import median

from accelbench.kernels.storage.scratch_file import CHECKSUM, ScratchFile, seconds_of
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric, Verification
from accelbench.profiling.records.work import Work

READS = 64
"""Number of reads of one execution."""
CHECKED = 1000
"""Number of checked reads: a disk with moving heads takes seconds for them."""
RESOLUTION_S = 1e-3
"""Resolution of fio's time."""
PERCENTILES = {"latency": "50.000000", "latency_p99": "99.000000"}
"""Keys of the percentiles in fio's results."""


def prepare(point: Point) -> Task:
    """Return the point's task; Skip if the page cache cannot be bypassed."""
    size, block, depth = int(point["mib"]) << 20, int(point["kib"]) << 10, int(point["depth"])
    file = ScratchFile(size, direct=True)
    file.write(**CHECKSUM, verify_interval=block, do_verify=0)
    latencies: dict[int, list[dict[str, float]]] = {}

    def sample(loops: int) -> float:
        result = file.run("randread", bs=block, iodepth=depth, io_size=loops * READS * block, norandommap=1)
        found = result["read"]["clat_ns"]["percentile"]
        latencies.setdefault(loops, []).append({name: found[key] for name, key in PERCENTILES.items()})
        return seconds_of(result, "read") / loops

    def verify() -> Verification:
        return file.check(block, "randread", min(CHECKED, size // block))

    def metrics(seconds: float) -> dict[str, Metric]:
        of_samples = latencies[max(latencies)]
        found = {name: Metric(median(each[name] for each in of_samples) * 1e-9, "s") for name in PERCENTILES}
        return found | {"bandwidth": Metric(READS * block / seconds, "B/s")}

    return Task(
        run=lambda: sample(1),
        verify=verify,
        work=Work(items=READS, item="reads"),
        metrics=metrics,
        sample=sample,
        overhead=lambda: RESOLUTION_S,
    )
