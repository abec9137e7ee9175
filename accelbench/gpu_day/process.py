"""A command of a stage: shown and logged while it runs, and ended in good order when its time is over."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import IO

GRACE_S = 25.0
"""The seconds that an interrupted command gets to end: a run prints its table and writes its report, pytest sums up."""
TAIL_BYTES = 4096
PR_SET_PDEATHSIG = 1  # prctl(2)
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclass(frozen=True)
class Command:
    """A command line and the folder to run it in."""

    words: Sequence[str]
    folder: Path
    fine: tuple[int, ...] = (0,)
    """The exit statuses that are no failure."""
    run: Path | None = None
    """The directory of the run that the command measures; None where it measures none."""


@dataclass(frozen=True)
class CommandOutcome:
    """End of a command."""

    status: int | None
    """The command's exit status; None means that its time was over and it was interrupted."""
    last_line: str
    """The last line that the command printed."""


def run_limited(command: Command, log: Path, seconds: float, grace_s: float = GRACE_S) -> CommandOutcome:
    """Run it for so many seconds at most, its output shown and appended to the log; Ctrl-C here interrupts it, too."""
    sys.stdout.flush()
    tail = bytearray()
    with (
        log.open("ab") as copy,
        subprocess.Popen(
            command.words,
            cwd=command.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
            start_new_session=True,  # Ctrl-C reaches this process alone, which then interrupts the command
            preexec_fn=_end_with_parent,
        ) as process,
    ):
        assert process.stdout is not None
        copier = Thread(target=_copy, args=(process.stdout, copy, tail), daemon=True)
        copier.start()
        status: int | None = None
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            print(f"its {seconds:.0f} s are over", flush=True)
        finally:
            _stop(process, grace_s)
            copier.join(grace_s)
    lines = bytes(tail).decode(errors="replace").split("\n")
    return CommandOutcome(status, next((line.strip(" =") for line in reversed(lines) if line.strip()), ""))


def _end_with_parent() -> None:
    """Ask Linux to interrupt this command when its parent is killed, lest it be left behind, measuring."""
    if _LIBC is not None:
        _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGINT)


def _copy(output: IO[bytes], log: IO[bytes], tail: bytearray) -> None:
    while chunk := os.read(output.fileno(), 1 << 16):
        tail[:] = (tail + chunk)[-TAIL_BYTES:]
        log.write(chunk)
        log.flush()
        sys.stdout.buffer.write(chunk)
        sys.stdout.flush()


def _stop(process: subprocess.Popen[bytes], grace_s: float) -> None:
    """Interrupt what still runs, as Ctrl-C would, and after the grace kill it with all that it started."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
