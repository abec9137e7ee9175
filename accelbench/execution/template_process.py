"""The template process as the runner sees it: started with the first worker that is asked of it, ended with the run."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from accelbench.execution.affinity import one_thread_a_core
from accelbench.execution.process_group import ProcessGroup, kill_group
from accelbench.profiling.child import child_command
from accelbench.profiling.ranks.channel import Channel

FORKS = sys.platform == "linux" and "ACCELBENCH_NO_FORK" not in os.environ
"""Whether workers are forked: the template looks into /proc, and asks prctl(2) to die with the runner. Who suspects a
fork sets the variable, and each worker is started afresh."""
LIBRARIES = ("cupy", "cuda.bindings.runtime", "accelbench.kernels.lib.gpu.compiler_start")
"""The modules that GPU kernels need only when a point is prepared; none of them starts CUDA."""
END_SECONDS = 1.0
"""The time in seconds that a killed worker is waited for before the template is asked once more."""


class Started(Protocol):
    """A process that was started, and leads a group of its own."""

    @property
    def pid(self) -> int: ...

    def fileno(self) -> int | None:
        """Return a descriptor that becomes readable when the process ends, if not before; None where there is none."""

    def has_ended(self, seconds: float = 0.0) -> bool:
        """Return whether the process is dead, or dies within so many seconds; its group may live on."""

    def end(self) -> int:
        """Kill the group, and return the exit status of the process: that of before if it was dead."""


class Template:
    """A process that has imported what workers need, and forks them; they are kernels, which have one thread a core."""

    def __init__(self) -> None:
        self._process: ProcessGroup | None = None

    def __enter__(self) -> Template:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def start(self, modules: Sequence[str], output: int, channel: int) -> Started:
        """Return a worker with these modules imported and these descriptors, of which the caller keeps its own copies.

        The worker before must have ended. One that dies while it imports takes the template with it; the next worker
        then gets a new one.
        """
        if self._process is None or self._process.has_ended():
            self._begin(output)
        assert self._process is not None
        with suppress(OSError):  # it has died just now: the worker's exit status tells
            socket.send_fds(self._requests, [json.dumps([*LIBRARIES, *modules]).encode()], [output, channel])
        return Forked(self._process, self._answers)

    def _begin(self, output: int) -> None:
        self.close()
        self._requests, theirs = socket.socketpair()
        self._answers = Channel(self._requests)
        with theirs, one_thread_a_core():
            self._process = ProcessGroup(
                subprocess.Popen(
                    child_command("accelbench.execution.template", str(theirs.fileno())),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                    env=os.environ | {"PYTHONUNBUFFERED": "1"},
                )
            )

    def close(self) -> None:
        """End the process, if there is one; `start` begins another."""
        if self._process is not None:
            self._process.end()
            self._answers.close()
            self._process = None


class Forked:
    """A worker as the template tells of it; until it is forked, the template stands for it.

    The template lets go of a dead worker's number when the next one is asked for, and not before.
    """

    def __init__(self, template: ProcessGroup, answers: Channel) -> None:
        self._template, self._answers = template, answers
        self._pid = template.pid
        self._status: int | None = None
        self._killed = False

    @property
    def pid(self) -> int:
        """Return the worker's process number, which is that of its group, too."""
        self.has_ended()
        return self._pid

    def fileno(self) -> int:
        """Return the descriptor of what the template tells: the worker's number, and its end."""
        return self._answers.fileno()

    def has_ended(self, seconds: float = 0.0) -> bool:
        """Return whether the template says that the worker is dead, or says so within so many seconds."""
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
        """Kill the worker's group, and return the worker's exit status: that of before if it was dead."""
        self.has_ended()
        if self._pid == self._template.pid:
            self._template.end()
        elif not self._killed:
            kill_group(self._pid)
        self._killed = True
        while self._status is None:
            self.has_ended(END_SECONDS)
        return self._status
