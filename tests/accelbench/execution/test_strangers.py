"""Strangers at every port that a run listens at, from its first moment to its last, change nothing about it."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import cycle
from pathlib import Path
from threading import Event, Thread

import psutil
import pytest

from accelbench.profiling.ranks.channel import free_port
from tests.accelbench.execution.test_ranks import rank
from tests.conftest import records

PIECE = b"x" * 1_000_000
WAIT_SECONDS = 2.0
"""The time in seconds for which strangers are alone with rank 0."""


def say(end: socket.socket, *pieces: bytes) -> None:
    """Say it as far as anybody listens, which strangers' connections are not for long."""
    with suppress(OSError):
        for piece in pieces:
            end.sendall(piece)


Attack = Callable[[Callable[[], socket.socket]], None]
ATTACKS: tuple[Attack, ...] = (
    lambda come: say(come()),  # silence
    lambda come: come().close(),  # a port scan
    lambda come: say(come(), b"GET / HTTP/1.1\r\n\r\n"),
    lambda come: say(come(), b'{"nonce": "'),
    lambda come: say(come(), b'{"nonce": "' + b"0" * 64 + b'"}\n', b'{"proof": "", "hello": {"rank": 1}}\n'),
    lambda come: say(come(), b'{"hello": {"rank": 7, "size": 2}}\n'),
    lambda come: [come() for _ in range(50)] and None,
    lambda come: say(come(), *[PIECE] * 300),
)


def listening(process: psutil.Process) -> set[int]:
    """Return the ports at which the process, or what it started, listens at the loopback address."""
    found: set[int] = set()
    with suppress(psutil.Error):
        for each in [process, *process.children(recursive=True)]:
            with suppress(psutil.Error):
                found |= {
                    connection.laddr.port
                    for connection in each.net_connections(kind="tcp")
                    if connection.status == psutil.CONN_LISTEN
                }
    return found


@contextmanager
def attacked(*processes: int) -> Iterator[set[int]]:
    """Attack every port that these processes, or what they start, listen at, and tell which there were."""
    found: set[int] = set()
    over = Event()
    with ExitStack() as stack:

        def attack(process: psutil.Process) -> None:
            kinds = cycle(ATTACKS)
            while not over.is_set():
                for port in listening(process):

                    def come(port: int = port) -> socket.socket:
                        return stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=1))

                    with suppress(OSError):
                        next(kinds)(come)
                        found.add(port)
                over.wait(0.02)

        attackers = [Thread(target=attack, args=(psutil.Process(process),)) for process in processes]
        for attacker in attackers:
            attacker.start()
        try:
            yield found
        finally:
            over.set()
            for attacker in attackers:
                attacker.join()


@pytest.mark.slow
def test_a_run_under_attack_ends_as_any_other(tmp_path: Path) -> None:
    port, out = free_port("127.0.0.1"), tmp_path / "run"
    first = rank(0, 2, port, "--out", str(out), what="late")
    with attacked(first.pid) as ports:
        time.sleep(WAIT_SECONDS)  # in which strangers come before the other rank
        deadline = time.monotonic() + 60
        while port not in ports and first.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        other = rank(1, 2, port, what="late")
        with attacked(other.pid):
            said, _ = first.communicate(timeout=120)
            other.communicate(timeout=60)
    assert first.returncode == other.returncode == 0, said
    assert [record["status"] for record in records(out)] == ["measured"]
    assert port in ports
    assert len(ports) > 1  # that of rank 0's worker
    assert "was dropped" in said
    assert "Traceback" not in said
