"""Template process from the side of the runner: started with the first forked worker, ended with the run."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from accelbench.execution.affinity import limited_to_one_thread_per_core
from accelbench.execution.process_group import ProcessGroup, kill_group
from accelbench.profiling.child import child_command, child_environment
from accelbench.profiling.ranks.channel import Channel

FORKS = sys.platform == "linux" and "ACCELBENCH_NO_FORK" not in os.environ
"""Whether workers are forked. The template requires Linux (/proc, prctl(2)); ACCELBENCH_NO_FORK disables it."""
LIBRARIES = ("cupy", "cuda.bindings.runtime", "accelbench.kernels.lib.gpu.compiler_start")
"""Modules that GPU kernels import when a point is prepared; none of them initializes CUDA."""
END_SECONDS = 1.0
"""Interval in seconds between checks for the end of a killed worker."""


class StartedProcess(Protocol):
    """Started process that leads a process group."""

    @property
    def pid(self) -> int: ...

    def fileno(self) -> int | None:
        """Return a descriptor that is readable once the process has ended, or earlier; None if there is none."""

    def has_ended(self, seconds: float = 0.0) -> bool:
        """Return whether the process has ended, waiting at most `seconds`; its group may still run."""

    def end(self) -> int:
        """Kill the group; return the exit status of the process."""


class Template:
    """Process that forks workers for kernels, with their modules imported and one thread per core."""

    def __init__(self) -> None:
        self._process: ProcessGroup | None = None

    def __enter__(self) -> Template:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def start(self, modules: Sequence[str], output: int, channel: int) -> StartedProcess:
        """Return a worker with these modules imported; the descriptors are duplicated for it.

        The previous worker must have ended. An import that crashes ends the template; the next call starts a new one.
        """
        if self._process is None or self._process.has_ended():
            self._begin(output)
        assert self._process is not None
        with suppress(OSError):  # it has just died: the worker gets its exit status
            socket.send_fds(self._requests, [json.dumps([*LIBRARIES, *modules]).encode()], [output, channel])
        return ForkedWorker(self._process, self._answers)

    def _begin(self, output: int) -> None:
        self.close()
        self._requests, theirs = socket.socketpair()
        self._answers = Channel(self._requests)
        with theirs, limited_to_one_thread_per_core():
            self._process = ProcessGroup(
                subprocess.Popen(
                    child_command("accelbench.execution.template", str(theirs.fileno())),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                    env=child_environment(PYTHONUNBUFFERED="1"),
                )
            )

    def close(self) -> None:
        """End the process, if it runs; `start` starts a new one."""
        if self._process is not None:
            self._process.end()
            self._answers.close()
            self._process = None


class ForkedWorker:
    """Worker forked by the template; before the fork, `pid` is the PID of the template.

    The template reaps a dead worker only at the next request, so the worker's PID is not reused before.
    """

    def __init__(self, template: ProcessGroup, answers: Channel) -> None:
        self._template, self._answers = template, answers
        self._pid = template.pid
        self._status: int | None = None
        self._killed = False

    @property
    def pid(self) -> int:
        """PID of the worker, which is also the ID of its group."""
        self.has_ended()
        return self._pid

    def fileno(self) -> int:
        """Return the descriptor of the template's responses (PID and exit status)."""
        return self._answers.fileno()

    def has_ended(self, seconds: float = 0.0) -> bool:
        """Return whether the template has reported the end of the worker, waiting at most `seconds`."""
        while self._status is None:
            match self._answers.receive(seconds):
                case {"pid": pid}:
                    self._pid = pid
                case {"status": status}:
                    self._status = status
                case None if self._answers.open:
                    return False
                case _:  # the template has died
                    self._status = self._template.end()
        return True

    def end(self) -> int:
        """Kill the worker's group; return the worker's exit status."""
        self.has_ended()
        if self._pid == self._template.pid:
            self._template.end()
        elif not self._killed:
            kill_group(self._pid)
        self._killed = True
        while self._status is None:
            self.has_ended(END_SECONDS)
        return self._status
