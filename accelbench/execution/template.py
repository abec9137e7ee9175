"""Template process: imports the modules of many workers once, and forks the workers.

The template is started with the argument FD (`accelbench.profiling.child`), a socket. A request is a JSON list of
modules to import, with two file descriptors for the worker: its output and its end of the channel to its parent. Each
request has two responses on FD: `{"pid": …}` when the worker runs and `{"status": …}` when it has ended.

Neither CUDA nor threads survive a fork. Therefore the CUDA driver must not be initialized in the template, and no
library may have threads except those that it stops before a fork and restarts afterwards, as OpenBLAS does. Otherwise
workers are started in new interpreters, and their log contains the reason.
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
from accelbench.profiling.child import child_command, child_environment, die_with_parent
from accelbench.profiling.host.pyspy import allow_tracing
from accelbench.profiling.machine.nvidia.libcuda import LIBCUDA
from accelbench.profiling.ranks.channel import Channel

REQUEST_BYTES = 1 << 16
CUDA_ERROR_NOT_INITIALIZED = 3  # CUresult, cuda.h
JOINED_SECONDS = 1.0
"""Seconds for a joined thread to leave the process table."""


class Descriptors(NamedTuple):
    """File descriptors of a worker: its output, and its end of the channel to its parent."""

    output: int
    channel: int


def main() -> None:
    """Serve requests in the template process; measure in each child."""
    allow_tracing(os.getppid())  # for the stack dump of an import that hangs
    discover()
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        channel = serve(requests)
    if channel is not None:
        work(channel)


def serve(requests: socket.socket) -> int | None:
    """Serve requests until the socket is closed, then return None; in a child, return its channel descriptor."""
    answers = Channel(requests)
    ended: int | None = None
    while True:
        request, received, _, _ = socket.recv_fds(requests, REQUEST_BYTES, len(Descriptors._fields))
        if ended is not None:
            # Reaped only now: the PID of a zombie is not reused, so no unrelated process can be killed.
            os.waitpid(ended, 0)
        if not request:
            return None
        given = Descriptors(*received)
        for standard in (1, 2):
            os.dup2(given.output, standard)
        for module in json.loads(request):
            with suppress(Exception):  # the worker raises the same error, which its record stores
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
    """Return the reason why this process must not be forked; None if a fork is safe."""
    if driver_initialized():
        return "an import initialized the CUDA driver"
    # A trial fork makes libraries run their fork handlers, which may stop their threads.
    if (child := os.fork()) == 0:
        os._exit(0)
    os.waitpid(child, 0)
    deadline = monotonic() + JOINED_SECONDS
    while (threads := len(os.listdir("/proc/self/task")) - 1) and monotonic() < deadline:
        sleep(0.001)
    return f"an import started threads, and {threads} of them are still running" if threads else None


def driver_initialized() -> bool:
    """Return whether this process has initialized the CUDA driver; a driver that is only loaded survives a fork."""
    if LIBCUDA not in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace"):
        return False
    status: int = ctypes.CDLL(LIBCUDA).cuDeviceGetCount(ctypes.byref(ctypes.c_int()))
    return status != CUDA_ERROR_NOT_INITIALIZED


def fork(given: Descriptors) -> int:
    """Fork; return the child's PID after the child has become a group leader, and 0 in the child."""
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
    """Start a worker in a new interpreter, and return its PID."""
    os.write(given.output, f"accelbench: worker started in a new interpreter, not forked: {reason}\n".encode())
    command = child_command("accelbench.execution.worker", str(given.channel))
    return subprocess.Popen(command, pass_fds=[given.channel], env=child_environment(), start_new_session=True).pid


if __name__ == "__main__":
    main()
