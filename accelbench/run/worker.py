"""The worker process: measures the points of one benchmark and reports each as it is done.

It is a fresh interpreter, `python -m accelbench.run.worker FD`, or was forked by one that had imported what it needs
(`accelbench.run.template`). FD is its end of the channel to its parent: from there it receives a `Job`, and there it
sends `{"record": …}` as each point is done and, where several ranks measure it together, a sign of life every second.
Standard output and error stay free for whatever the frameworks print.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import socket
import sys
import time
from pathlib import Path
from threading import Thread

import psutil

from accelbench.run.plan import discover
from profiling.host.pyspy import allow_tracing
from profiling.measure import measure
from profiling.profiled_steps import Keep
from profiling.ranks.channel import Channel
from profiling.ranks.world import DOING, World, join
from profiling.records.environment import Environment
from profiling.records.point import Point
from profiling.records.stored import Stored

PR_SET_PDEATHSIG = 1  # prctl(2)
BEAT_SECONDS = 1.0


class Job(Stored):
    """The points that one worker is to measure, and how."""

    points: list[Point]
    environment: Environment
    max_seconds: float
    keep: list[Keep | None]
    """The parts of each point's profile that are kept; None where nothing is."""
    profile: bool = True
    """Whether a training is looked at with the profilers after its measurement."""
    code: Path | None = None
    """The folder through which the rounds of a point share the machine code of its kernels; None for a single round."""
    world: World = World()


def main() -> None:
    """Measure in this fresh interpreter, which is paid for from its start."""
    die_with_parent()
    work(int(sys.argv[1]), psutil.Process().create_time())


def work(descriptor: int, begin: float) -> None:
    """Measure the job's points in order; the first pays for the imports since `begin`, a moment of `time.time`."""
    faulthandler.enable()
    allow_tracing()  # a worker that hangs is asked for its stacks
    parent = Channel(socket.socket(fileno=descriptor))
    message = parent.receive()
    if message is None:
        return  # the parent has ended
    job = Job.model_validate(message["job"])
    join(job.world)
    if job.world.size > 1:
        Thread(target=_beat, args=(parent,), daemon=True).start()
    benchmark = discover()[job.points[0].benchmark]
    import_s = time.time() - begin
    for index, point in enumerate(job.points):
        record = measure(benchmark, point, job.environment, job.max_seconds, job.keep[index], job.profile)
        if index == 0:
            record = record.model_copy(update={"phases": record.phases.model_copy(update={"import_s": import_s})})
        if not parent.send(record=record.model_dump(mode="json")):
            return


def _beat(parent: Channel) -> None:
    """Tell again and again what this rank is doing; one that is stopped, or holds the interpreter's lock, cannot."""
    while parent.send(beat={"stage": DOING.stage, "steps": DOING.steps}):
        time.sleep(BEAT_SECONDS)


def die_with_parent(parent: int | None = None) -> None:
    """Have Linux kill this process with its parent, so that nothing is left behind to disturb the next measurement.

    A process that knows its parent by number ends at once if that has died before.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if parent is not None and os.getppid() != parent:
            os._exit(1)


if __name__ == "__main__":
    main()
