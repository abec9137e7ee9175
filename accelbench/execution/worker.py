"""Worker process: measures one point and sends its record to the runner.

The worker is a new interpreter with the argument FD (`accelbench.profiling.child`), or a fork of the template process
(`accelbench.execution.template`). FD is its end of the channel to its parent. The worker receives
`{"job": …, "began": …, "runner": …}`: the `LocalWorkerJob`, the start of its imports on the machine's monotonic clock,
and the PID of the process that may trace it. It sends `{"record": …}` at the end, `{"measured": …}` (the record without
a profile) before profiling a training workload, and with several ranks a heartbeat every second. Standard output and
standard error contain only what the frameworks print.
"""

from __future__ import annotations

import faulthandler
import socket
import sys
import time
from pathlib import Path
from threading import Thread
from typing import Any

from accelbench.execution.affinity import with_unused_cpus
from accelbench.execution.plan import discover
from accelbench.profiling.host.pyspy import allow_tracing
from accelbench.profiling.machine.environment.cpu import collect_affinity
from accelbench.profiling.measure.point import measure
from accelbench.profiling.measure.profiled_steps import KeptFolders
from accelbench.profiling.ranks.channel import Channel
from accelbench.profiling.ranks.world import PROGRESS, World, join
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.stored import Stored
from accelbench.profiling.timing.position import use_page

HEARTBEAT_SECONDS = 1.0


class WorkerJob(Stored):
    """Job of a worker, as sent from rank 0 to another rank; it contains no paths."""

    point: Point
    environment: Environment
    max_seconds: float
    patience_s: float | None = None
    """Additional sampling time if too few samples are undisturbed; None for half of `max_seconds`."""
    brief: bool = False
    """Whether a training workload is only timed; another repetition records its quality and profile."""
    world: World = World()


class LocalWorkerJob(WorkerJob):
    """Job of a worker on rank 0, with the folders that it writes to."""

    keep: KeptFolders | None = None
    """Folders for the parts of the profile to keep; None keeps no profile."""
    code: Path | None = None
    """Folder with machine code shared by the repetitions of a point; None for a single repetition."""
    page: int | None = None
    """File descriptor of the shared-memory page for the training progress; None if it is not displayed."""


def main() -> None:
    """Run as a new interpreter: measure the point received on the descriptor in the first argument."""
    work(int(sys.argv[1]))


def work(descriptor: int) -> None:
    """Receive one job on the channel, measure its point and send the record, with the import time."""
    faulthandler.enable()
    begun_on = collect_affinity()
    parent = Channel(socket.socket(fileno=descriptor))
    message = parent.receive()
    if message is None:
        return  # the parent has ended
    allow_tracing(message["runner"])  # for the stack dump of a hung worker
    job = LocalWorkerJob.model_validate(message["job"])
    join(job.world)
    if job.page is not None:
        use_page(job.page)
    if job.world.size > 1:
        Thread(target=_send_heartbeats, args=(parent,), name="heartbeats", daemon=True).start()
    benchmark = discover()[job.point.benchmark]
    import_s = time.monotonic() - message["began"]

    def completed(record: Record) -> dict[str, Any]:
        record = with_unused_cpus(record, job.environment.cpu.affinity, begun_on)
        phases = record.phases.model_copy(update={"import_s": import_s})
        return record.model_copy(update={"phases": phases}).model_dump(mode="json")

    def send_measured(measured: Record) -> None:
        parent.send(measured=completed(measured))

    record = measure(
        benchmark, job.point, job.environment, job.max_seconds, job.keep, job.brief, send_measured, job.patience_s
    )
    parent.send(record=completed(record))


def _send_heartbeats(parent: Channel) -> None:
    """Send stage and step every second; a process that is stopped or holds the GIL sends nothing."""
    while parent.send(heartbeat={"stage": PROGRESS.stage, "steps": PROGRESS.steps}):
        time.sleep(HEARTBEAT_SECONDS)


if __name__ == "__main__":
    main()
