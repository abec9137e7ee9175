"""Command `launch`: several ranks of a run on this host, each with an equal share of the cores."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Thread
from types import FrameType
from typing import IO

import click

from accelbench.errors import UserError

COMMANDS = ("run", "resume")
EXIT_SECONDS = 10.0
"""Seconds for the other ranks to exit after rank 0; then they are killed."""


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--procs", type=click.IntRange(1), default=2, show_default=True, help="Processes on each node.")
@click.option(
    "--nodes", type=click.IntRange(1), default=1, show_default=True, help="Number of nodes to simulate on this host."
)
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="run|resume [ARGUMENT]...")
def command(procs: int, nodes: int, words: tuple[str, ...]) -> int:
    """Run `run` or `resume` in several processes on this host, as the ranks of one run.

    Intended for tests. On a cluster, use srun, mpirun or torchrun: 'srun -n 8 accelbench run …'.
    """
    if words[0] not in COMMANDS:
        raise UserError(f"accelbench launch cannot start {words[0]!r} (choose {' or '.join(COMMANDS)})")
    return launch(words, procs, nodes)


def launch(command: Sequence[str], procs: int, nodes: int) -> int:
    """Run the command in `procs` × `nodes` processes and return the exit status of rank 0.

    Output of the other ranks is prefixed by `[rank N]`. All processes are in an isolated network, if the system
    permits one.
    """
    from accelbench.execution.cluster import COORDINATOR, LOCAL_RANK, LOCALHOST, RANK, RANKS
    from accelbench.execution.own_network import isolate_network
    from accelbench.profiling.child import SECRET, module_command
    from accelbench.profiling.machine.placement import on_cpus
    from accelbench.profiling.ranks.channel import Address, free_port

    size = procs * nodes
    isolate_network()
    secret = secrets.token_hex(32)
    coordinator = str(Address(LOCALHOST, free_port(LOCALHOST)))
    others = []
    for rank in reversed(range(size)):
        place = {RANK: str(rank), RANKS: str(size), LOCAL_RANK: str(rank % procs), COORDINATOR: coordinator}
        place[SECRET] = secret
        arguments = module_command("accelbench", *command)
        with on_cpus(share(rank, size, sorted(os.sched_getaffinity(0)))):
            if rank == 0:
                first = subprocess.Popen(arguments, env=os.environ | place)
                break
            # Ctrl-C reaches only rank 0, which ends the others.
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
            other.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(other.pid, signal.SIGKILL)
            other.wait()
        # Python aborts at exit if a thread is still writing to stdout.
        printer.join()
    return status if status >= 0 else 128 - status


def share(rank: int, size: int, cores: Sequence[int]) -> Sequence[int]:
    """Return the cores of one of `size` ranks; all cores if there are fewer cores than ranks."""
    each = len(cores) // size
    return cores[rank * each : (rank + 1) * each] or cores


def _print(rank: int, output: IO[str]) -> None:
    from accelbench.output.console import say

    for line in output:
        say(f"[rank {rank}] {line.rstrip()}")


@contextmanager
def _signals_passed_to(first: subprocess.Popen[bytes]) -> Iterator[None]:
    """Forward SIGTERM to rank 0, which receives Ctrl-C directly from the terminal."""

    def forward(signum: int, frame: FrameType | None) -> None:
        if signum == signal.SIGTERM:
            first.send_signal(signum)

    previous = {number: signal.signal(number, forward) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
