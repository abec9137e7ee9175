"""Process groups, which are killed as a whole."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from time import monotonic, sleep

POLL_SECONDS = 0.01


class ProcessGroup:
    """Process that leads a new session, with all processes of its group.

    The leader is not reaped before `end`, so its PID cannot be reused by an unrelated process that would be killed.
    """

    def __init__(self, leader: subprocess.Popen[bytes]) -> None:
        self._leader = leader
        self._descriptor = _descriptor_of(leader.pid)

    @property
    def pid(self) -> int:
        """PID of the leader, which is also the ID of the group."""
        return self._leader.pid

    def fileno(self) -> int | None:
        """Return a descriptor that is readable after the leader has ended (pidfd); None if the system has no pidfd."""
        return self._descriptor

    def has_ended(self, seconds: float = 0.0) -> bool:
        """Return whether the leader has ended, waiting at most `seconds`."""
        deadline = monotonic() + seconds
        while not self._is_dead():
            if monotonic() >= deadline:
                return False
            sleep(POLL_SECONDS)
        return True

    def _is_dead(self) -> bool:
        if self._leader.returncode is not None:
            return True
        return os.waitid(os.P_PID, self._leader.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def end(self) -> int:
        """Kill the group; return the leader's exit status as in `subprocess`. Repeated calls return the same status."""
        if self._leader.returncode is None:
            kill_group(self._leader.pid)
            self._leader.wait()
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None
        return self._leader.returncode


def kill_group(group: int) -> None:
    """Kill all processes of the group, if it exists."""
    with suppress(ProcessLookupError):  # the group has ended
        os.killpg(group, signal.SIGKILL)


def _descriptor_of(pid: int) -> int | None:
    """Return the process's pidfd (pidfd_open(2)); None if the system has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
