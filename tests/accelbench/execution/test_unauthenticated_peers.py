"""Tests of unauthenticated connections to every port of a run, which must not change its result."""

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
"""Seconds of attack on rank 0 before the other rank starts."""


def send(end: socket.socket, *pieces: bytes) -> None:
    """Send the pieces until the connection is closed."""
    with suppress(OSError):
        for piece in pieces:
            end.sendall(piece)


Attack = Callable[[Callable[[], socket.socket]], None]
ATTACKS: tuple[Attack, ...] = (
    lambda connect: send(connect()),  # silence
    lambda connect: connect().close(),  # a port scan
    lambda connect: send(connect(), b"GET / HTTP/1.1\r\n\r\n"),
    lambda connect: send(connect(), b'{"nonce": "'),
    lambda connect: send(connect(), b'{"nonce": "' + b"0" * 64 + b'"}\n', b'{"proof": "", "hello": {"rank": 1}}\n'),
    lambda connect: send(connect(), b'{"hello": {"rank": 7, "size": 2}}\n'),
    lambda connect: [connect() for _ in range(50)] and None,
    lambda connect: send(connect(), *[PIECE] * 300),
)


def listening(process: psutil.Process) -> set[int]:
    """Return the ports at which the process or its children listen."""
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
    """Attack every port of these processes and their children, and yield the attacked ports."""
    found: set[int] = set()
    over = Event()
    with ExitStack() as stack:

        def attack(process: psutil.Process) -> None:
            attacks = cycle(ATTACKS)
            while not over.is_set():
                for port in listening(process):

                    def connect(port: int = port) -> socket.socket:
                        return stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=1))

                    with suppress(OSError):
                        next(attacks)(connect)
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
def test_a_run_under_attack_succeeds(tmp_path: Path) -> None:
    port, out = free_port("127.0.0.1"), tmp_path / "run"
    first = rank(0, 2, port, "--out", str(out), what="late")
    with attacked(first.pid) as ports:
        time.sleep(WAIT_SECONDS)  # attack before the other rank connects
        deadline = time.monotonic() + 60
        while port not in ports and first.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        other = rank(1, 2, port, what="late")
        with attacked(other.pid):
            output, _ = first.communicate(timeout=120)
            other.communicate(timeout=200)
    assert first.returncode == other.returncode == 0, output
    assert [record["status"] for record in records(out)] == ["measured"]
    assert port in ports
    assert len(ports) > 1  # the port of rank 0's worker
    assert "was dropped" in output
    assert "Traceback" not in output
