"""Commands of a stage, with output shown and logged, and a time limit."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from accelbench.execution.output_log import OutputLog
from accelbench.output.console import say
from accelbench.profiling.child import child_environment

GRACE_S = 25.0
"""Seconds for an interrupted command to exit, for example to write a report; then it is killed."""
TAIL_BYTES = 4096
PR_SET_PDEATHSIG = 1  # prctl(2)
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclass(frozen=True)
class Command:
    """Command line with its working directory."""

    words: Sequence[str]
    folder: Path
    fine: tuple[int, ...] = (0,)
    """Exit statuses that count as success."""
    run: Path | None = None
    """Run directory of the command; None if it measures nothing."""


@dataclass(frozen=True)
class CommandOutcome:
    """Outcome of a command."""

    status: int | None
    """Exit status; None if the command was interrupted at its time limit."""
    last_line: str
    """Last non-empty output line."""


def run_limited(command: Command, log: Path, seconds: float, grace_s: float = GRACE_S) -> CommandOutcome:
    """Run a command for at most `seconds`, with its output shown and appended to the log; Ctrl-C interrupts it."""
    sys.stdout.flush()
    output = OutputLog(log, show=True)
    try:
        process = subprocess.Popen(
            command.words,
            cwd=command.folder,
            stdin=subprocess.DEVNULL,
            stdout=output.output,
            stderr=subprocess.STDOUT,
            env=child_environment(PYTHONUNBUFFERED="1"),
            start_new_session=True,  # Ctrl-C reaches only this process, which interrupts the command
            preexec_fn=_end_with_parent,
        )
        output.started()
        status: int | None = None
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            say(f"time limit of {seconds:.0f} s reached")
        finally:
            _stop(process, grace_s)
        lines = output.last_bytes(TAIL_BYTES).decode(errors="replace").split("\n")
    finally:
        output.close()
    return CommandOutcome(status, next((line.strip(" =") for line in reversed(lines) if line.strip()), ""))


def _end_with_parent() -> None:
    """Have the kernel send SIGINT to this command when its parent dies."""
    if _LIBC is not None:
        _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGINT)


def _stop(process: subprocess.Popen[bytes], grace_s: float) -> None:
    """Send SIGINT to a running process, and kill its process group after the grace period."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
