"""Start of a user's script with the observation of `accelbench.profiling.attach` in its process."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from accelbench.profiling.attach import injected
from accelbench.profiling.child import child_environment
from accelbench.profiling.files import open_for_appending

FORWARDED = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT")
"""Signals that are passed on to the script; Ctrl-C reaches it from the terminal."""


@contextmanager
def exchange_folder() -> Iterator[Path]:
    """Yield a private folder for events of the script and commands to it; its name ends with this process's PID."""
    with tempfile.TemporaryDirectory(prefix="accelbench-", suffix=f"-{os.getpid()}") as folder:
        for name in ("events", "commands"):
            os.close(open_for_appending(Path(folder, name), 0o600))
        yield Path(folder)


def start(command: Sequence[str], folder: Path, stdin: int | None = None) -> subprocess.Popen[bytes]:
    """Start the command with this process's streams, or another input; raise OSError if it cannot be started."""
    path = os.environ.get("PYTHONPATH")
    settings = {
        "ACCELBENCH_ATTACH": str(folder),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(Path(injected.__file__).parent), path])),
    }
    if path is not None:
        settings["ACCELBENCH_ATTACH_PYTHONPATH"] = path
    return subprocess.Popen(command, stdin=stdin, env=child_environment(**settings))


@contextmanager
def signals_passed_to(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Forward signals to the script, so that it alone decides what they do."""

    def forward(number: int, frame: FrameType | None) -> None:
        if number != signal.SIGINT:
            process.send_signal(number)

    numbers = [signal.SIGINT, *(getattr(signal, name) for name in FORWARDED if hasattr(signal, name))]
    previous = {number: signal.signal(number, forward) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
