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

from accelbench.run.child import child_command
from profiling.ranks.channel import Channel

FORKS = sys.platform == "linux" and "ACCELBENCH_NO_FORK" not in os.environ
"""Whether workers are forked: the template looks into /proc, and asks prctl(2) to die with the runner. Who suspects a
fork sets the variable, and each worker is started afresh."""
LIBRARIES = ("cupy", "cuda.bindings.runtime", "kernels.compiler_start")
"""The modules that GPU kernels need only when a point is prepared; none of them starts CUDA."""


class Started(Protocol):
    """A process that was started, with those names of `subprocess.Popen` that its keeper needs."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


class Template:
    """A process that has imported what workers need, and forks them."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Template:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def start(self, modules: Sequence[str], output: int, channel: int) -> Started:
        """Return a worker with these modules imported and these descriptors, of which the caller keeps its own copies.

        The worker before must have ended. One that dies while it imports takes the template with it; the next worker
        then gets a new one.
        """
        if self._process is None or self._process.poll() is not None:
            self._begin(output)
        assert self._process is not None
        with suppress(OSError):  # it has died just now: the worker's exit status tells
            socket.send_fds(self._requests, [json.dumps([*LIBRARIES, *modules]).encode()], [output, channel])
        return Forked(self._process, self._answers)

    def _begin(self, output: int) -> None:
        self.close()
        self._requests, theirs = socket.socketpair()
        self._answers = Channel(self._requests)
        with theirs:
            self._process = subprocess.Popen(
                child_command("accelbench.run.template", str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )

    def close(self) -> None:
        """End the process, if there is one; `start` begins another."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._answers.close()
            self._process = None


class Forked:
    """A worker as the template tells of it; until it is forked, the template stands for it."""

    def __init__(self, template: subprocess.Popen[bytes], answers: Channel) -> None:
        self._template, self._answers = template, answers
        self._pid = template.pid
        self.returncode: int | None = None

    @property
    def pid(self) -> int:
        """Return the worker's process number, which is that of its group, too."""
        self.poll()
        return self._pid

    def poll(self) -> int | None:
        """Return the worker's exit status, as `subprocess` has it; None while it runs."""
        try:
            return self.wait(0.0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit status; raises `subprocess.TimeoutExpired` if it does not answer for so many seconds."""
        while self.returncode is None:
            match self._answers.receive(timeout):
                case {"pid": pid}:
                    self._pid = pid
                case {"status": status}:
                    self.returncode = status
                case None if self._answers.open:
                    raise subprocess.TimeoutExpired("accelbench.run.worker", timeout or 0.0)
                case _:  # it has died
                    self.returncode = self._template.wait()
        return self.returncode
