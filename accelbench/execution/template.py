"""The template process: imports once what many workers need, and forks each of them.

It is started with the argument FD (`accelbench.profiling.child`), and reads requests from that socket: the JSON list of
modules to import, and two descriptors, which no channel carries, for the worker: its output, and its end of the channel
to its parent. FD is a channel for the answers, two to each request: `{"pid": …}` once the worker runs, and
`{"status": …}` when it has ended.

CUDA does not survive a fork, and neither do threads. So the driver must not have been initialised here, and no library
may have threads but those that it ends by itself before a fork and starts again after it, as OpenBLAS does. Where that
does not hold, workers are started afresh, and their log says why.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import NamedTuple

from accelbench.execution.plan import discover
from accelbench.execution.worker import work
from accelbench.profiling.child import child_command, die_with_parent
from accelbench.profiling.host.pyspy import allow_tracing
from accelbench.profiling.machine.nvidia.libcuda import LIBCUDA
from accelbench.profiling.ranks.channel import Channel

REQUEST_BYTES = 1 << 16
CUDA_ERROR_NOT_INITIALIZED = 3  # CUresult, cuda.h
JOINED_SECONDS = 1.0
"""The time within which a thread that was joined leaves the process table, in seconds."""


class Descriptors(NamedTuple):
    """The descriptors of a worker: what it prints to, and its end of the channel to its parent."""

    output: int
    channel: int


def main() -> None:
    """Serve the requests; in each child, measure."""
    allow_tracing(os.getppid())  # an import that hangs is asked for its stack
    discover()
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        channel = serve(requests)
    if channel is not None:
        work(channel)


def serve(requests: socket.socket) -> int | None:
    """Answer until the other end is closed; in each child, return its end of the channel to its parent."""
    answers = Channel(requests)
    ended: int | None = None
    while True:
        request, received, _, _ = socket.recv_fds(requests, REQUEST_BYTES, len(Descriptors._fields))
        if ended is not None:
            # Until now it was a zombie, so that no other process could have its number and be killed in its place.
            os.waitpid(ended, 0)
        if not request:
            return None
        given = Descriptors(*received)
        for standard in (1, 2):
            os.dup2(given.output, standard)
        for module in json.loads(request):
            with suppress(Exception):  # the point meets the same error, and its record tells it
                importlib.import_module(module)
        reason = hindrance()
        pid = spawn(given, reason) if reason else fork(given)
        if pid == 0:
            return given.channel
        for descriptor in given:
            os.close(descriptor)
        answers.send(pid=pid)
        status = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert status is not None
        code = status.si_status if status.si_code == os.CLD_EXITED else -status.si_status
        answers.send(status=code)
        ended = pid


def hindrance() -> str | None:
    """Return why a fork of this process would not be sound; None if it is."""
    if driver_initialised():
        return "an import has initialised CUDA's driver"
    # What a library does before a fork is part of the question: a child that ends at once makes it do that.
    if (child := os.fork()) == 0:
        os._exit(0)
    os.waitpid(child, 0)
    deadline = monotonic() + JOINED_SECONDS
    while (threads := len(os.listdir("/proc/self/task")) - 1) and monotonic() < deadline:
        sleep(0.001)
    return f"an import has started threads, and {threads} of them last" if threads else None


def driver_initialised() -> bool:
    """Return whether this process has initialised CUDA's driver; if it is merely loaded, a fork can do so later."""
    if LIBCUDA not in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace"):
        return False
    status: int = ctypes.CDLL(LIBCUDA).cuDeviceGetCount(ctypes.byref(ctypes.c_int()))
    return status != CUDA_ERROR_NOT_INITIALIZED


def fork(given: Descriptors) -> int:
    """Return the child's process id, once it leads a group of its own; 0 in the child."""
    template = os.getpid()
    ready, led = os.pipe()
    pid = os.fork()
    os.close(ready if pid == 0 else led)
    if pid == 0:
        os.setsid()
        die_with_parent(template)
        for descriptor in (given.output, led):
            os.close(descriptor)
    else:
        os.read(ready, 1)
        os.close(ready)
    return pid


def spawn(given: Descriptors, reason: str) -> int:
    """Start a worker in an interpreter of its own, and return its process id."""
    os.write(given.output, f"accelbench: this worker is started afresh and not forked: {reason}\n".encode())
    command = child_command("accelbench.execution.worker", str(given.channel))
    return subprocess.Popen(command, pass_fds=[given.channel], start_new_session=True).pid


if __name__ == "__main__":
    main()
