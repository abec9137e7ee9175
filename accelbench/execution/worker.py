"""The worker process: measures one point and reports it.

It is a fresh interpreter with the argument FD (`accelbench.profiling.child`), or was forked by one that had imported
what it needs (`accelbench.execution.template`). FD is its end of the channel to its parent. From there it receives
`{"job": …, "began": …, "runner": …}`: the `Job`, since when it pays for imports, by the clock that all processes of a
machine share, and the number of the process that may trace it. There it sends `{"record": …}` when it is done,
`{"measured": …}` before it profiles a training, which is that record without the profile, and, where several ranks
measure together, a sign of life every second. Standard output and error stay free for whatever the
frameworks print.
"""

from __future__ import annotations

import faulthandler
import socket
import sys
import time
from pathlib import Path
from threading import Thread
from typing import Any

from accelbench.execution.affinity import with_left_out
from accelbench.execution.plan import discover
from accelbench.profiling.host.pyspy import allow_tracing
from accelbench.profiling.machine.environment.cpu import collect_affinity
from accelbench.profiling.measure.point import measure
from accelbench.profiling.measure.profiled_steps import KeptFolders
from accelbench.profiling.ranks.channel import Channel
from accelbench.profiling.ranks.world import DOING, World, join
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.stored import Stored
from accelbench.profiling.timing.position import show_in

BEAT_SECONDS = 1.0


class Order(Stored):
    """The point that a worker is to measure, and how, as one rank may tell another: it names no file."""

    point: Point
    environment: Environment
    max_seconds: float
    brief: bool = False
    """Whether a training is measured for its speed alone: its quality and its profile are those of another round."""
    world: World = World()


class Job(Order):
    """The order of a worker, and the folders that it writes to."""

    keep: KeptFolders | None = None
    """The parts of the point's profile that are kept; None where nothing is."""
    code: Path | None = None
    """The folder through which the rounds of a point share the machine code of its kernels; None for a single round."""
    page: int | None = None
    """The descriptor of the page in which a training shows how far it is; None where nobody looks."""


def main() -> None:
    """Measure in this fresh interpreter."""
    work(int(sys.argv[1]))


def work(descriptor: int) -> None:
    """Measure what the parent asks for; its record says what the imports took."""
    faulthandler.enable()
    begun_on = collect_affinity()
    parent = Channel(socket.socket(fileno=descriptor))
    message = parent.receive()
    if message is None:
        return  # the parent has ended
    allow_tracing(message["runner"])  # a worker that hangs is asked for its stacks
    job = Job.model_validate(message["job"])
    join(job.world)
    if job.page is not None:
        show_in(job.page)
    if job.world.size > 1:
        Thread(target=_beat, args=(parent,), name="beats", daemon=True).start()
    benchmark = discover()[job.point.benchmark]
    import_s = time.monotonic() - message["began"]

    def whole(record: Record) -> dict[str, Any]:
        record = with_left_out(record, job.environment.cpu.affinity, begun_on)
        phases = record.phases.model_copy(update={"import_s": import_s})
        return record.model_copy(update={"phases": phases}).model_dump(mode="json")

    def tell(measured: Record) -> None:
        parent.send(measured=whole(measured))

    record = measure(benchmark, job.point, job.environment, job.max_seconds, job.keep, job.brief, tell)
    parent.send(record=whole(record))


def _beat(parent: Channel) -> None:
    """Tell again and again what this rank is doing; one that is stopped, or holds the interpreter's lock, cannot."""
    while parent.send(beat={"stage": DOING.stage, "steps": DOING.steps}):
        time.sleep(BEAT_SECONDS)


if __name__ == "__main__":
    main()
