"""Writing and reading one large file by fio. Bound: the devices of the file system, and its network."""

from __future__ import annotations

from accelbench.kernels.storage.scratch_file import BLOCK, CHECKSUM, ScratchFile
from accelbench.profiling.benchmark import Task
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Verification
from accelbench.profiling.records.work import Work


def prepare(point: Point) -> Task:
    """Return the point's task; Skip if the file cannot be written as requested."""
    size = int(point["mib"]) << 20
    file = ScratchFile(size, direct=point["io"] == "direct")
    writes = point["op"] == "write"
    once = file.write if writes else file.read

    def verify() -> Verification:
        if writes:
            file.write(**CHECKSUM, do_verify=0)
        return file.check(BLOCK)

    def sample(loops: int) -> float:
        return sum(once() for _ in range(loops)) / loops

    if not writes:
        file.write(**CHECKSUM, do_verify=0)
    return Task(run=once, verify=verify, work=Work(bytes=size), sample=sample)
