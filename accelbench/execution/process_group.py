"""A process that leads a group of its own, so that it can be ended with all that it started."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from time import monotonic, sleep

POLL_SECONDS = 0.01


class ProcessGroup:
    """A process that was started as the leader of a new session, and whatever it starts in its group.

    The leader keeps its number until `end`, even where it is dead: no other process can have it and be killed instead.
    """

    def __init__(self, leader: subprocess.Popen[bytes]) -> None:
        self._leader = leader
        self._descriptor = _descriptor_of(leader.pid)

    @property
    def pid(self) -> int:
        """Return the number of the leader, which is that of the group, too."""
        return self._leader.pid

    def fileno(self) -> int | None:
        """Return the descriptor that is readable once the leader is dead; None where the system has none."""
        return self._descriptor

    def has_ended(self, seconds: float = 0.0) -> bool:
        """Return whether the leader is dead, or dies within so many seconds."""
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
        """Kill the group, and return the leader's exit status as `subprocess` has it: that of before if it was dead."""
        if self._leader.returncode is None:
            kill_group(self._leader.pid)
            self._leader.wait()
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None
        return self._leader.returncode


def kill_group(number: int) -> None:
    """Kill every process of the group, if there is one."""
    with suppress(ProcessLookupError):  # the last of them has ended
        os.killpg(number, signal.SIGKILL)


def _descriptor_of(pid: int) -> int | None:
    """Return the descriptor of a process (pidfd_open(2)); None where the system has none to give."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
