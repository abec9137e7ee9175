"""The worker process: measures the points of one benchmark in a fresh interpreter and reports each as it is done.

`python -m accelbench.worker FD` reads a `Job` from standard input and writes one JSON object per line to the file
descriptor FD: `{"point": i}` before point i, and its record after it. Standard output and error stay free for
whatever the frameworks print.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import signal
import sys
import time

import psutil

from accelbench.plan import discover
from profiling.benchmark import Point
from profiling.environment.model import Environment
from profiling.measure import measure
from profiling.profile import Keep
from profiling.stored import Stored

PR_SET_PDEATHSIG = 1  # prctl(2)


class Job(Stored):
    """What one worker is to measure."""

    points: list[Point]
    environment: Environment
    max_seconds: float
    keep: list[Keep]
    """Of each point's profile."""


def main() -> None:
    """Measure the job's points in order."""
    faulthandler.enable()
    _die_with_parent()
    with os.fdopen(int(sys.argv[1]), "w", encoding="utf-8", buffering=1) as events:
        job = Job.model_validate_json(sys.stdin.read())
        benchmark = discover()[job.points[0].benchmark]
        import_s = time.time() - psutil.Process().create_time()
        for index, point in enumerate(job.points):
            print(json.dumps({"point": index}), file=events)
            record = measure(benchmark, point, job.environment, job.max_seconds, job.keep[index])
            if index == 0:
                record = record.model_copy(update={"phases": record.phases.model_copy(update={"import_s": import_s})})
            print(record.model_dump_json(), file=events)


def _die_with_parent() -> None:
    """On Linux a runner that was killed leaves no worker behind to disturb the next measurement."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main()
