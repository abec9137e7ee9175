"""`accelbench launch`: several ranks of a run on this host, each with its share of the cores."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Thread
from types import FrameType
from typing import IO

from accelbench.cores import on_cores
from accelbench.errors import UserError
from accelbench.run.cluster import COORDINATOR, LOCAL_RANK, LOCALHOST, RANK, RANKS
from profiling.ranks.channel import Address, free_port

COMMANDS = ("run", "resume")
LAST_SECONDS = 10.0
"""For the other ranks to end, once rank 0 has."""


def launch(command: Sequence[str], procs: int, nodes: int = 1) -> int:
    """Run the command in `procs` × `nodes` processes; the exit status is that of rank 0.

    What the others print has their number before it. UserError for a command that measures nothing.
    """
    if command[0] not in COMMANDS:
        raise UserError(f"accelbench launch starts {' or '.join(COMMANDS)}, not {command[0]!r}")
    size = procs * nodes
    coordinator = str(Address(LOCALHOST, free_port(LOCALHOST)))
    others = []
    for rank in reversed(range(size)):
        place = {RANK: str(rank), RANKS: str(size), LOCAL_RANK: str(rank % procs), COORDINATOR: coordinator}
        arguments = [sys.executable, "-m", "accelbench", *command]
        with on_cores(share(rank, size, sorted(os.sched_getaffinity(0)))):
            if rank == 0:
                first = subprocess.Popen(arguments, env=os.environ | place)
                break
            # Ctrl-C reaches rank 0 alone, which ends the others.
            other = subprocess.Popen(
                arguments,
                env=os.environ | place,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
        assert other.stdout is not None
        printer = Thread(target=_print, args=(rank, other.stdout), daemon=True)
        printer.start()
        others.append((other, printer))
    with _signals_passed_to(first):
        status = first.wait()
    for other, printer in others:
        try:
            other.wait(LAST_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(other.pid, signal.SIGKILL)
            other.wait()
        # Python aborts at its end if a thread is still writing to stdout.
        printer.join()
    return status if status >= 0 else 128 - status


def share(rank: int, size: int, cores: Sequence[int]) -> Sequence[int]:
    """The cores of one of so many ranks; all of them, if there is none for each."""
    each = len(cores) // size
    return cores[rank * each : (rank + 1) * each] or cores


def _print(rank: int, output: IO[str]) -> None:
    for line in output:
        print(f"[rank {rank}] {line}", end="", flush=True)


@contextmanager
def _signals_passed_to(first: subprocess.Popen[bytes]) -> Iterator[None]:
    """SIGTERM ends rank 0; Ctrl-C it hears by itself, being of the terminal's group."""

    def pass_on(signum: int, frame: FrameType | None) -> None:
        if signum == signal.SIGTERM:
            first.send_signal(signum)

    previous = {number: signal.signal(number, pass_on) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
