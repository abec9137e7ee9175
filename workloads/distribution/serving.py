"""Processes that only serve another: by a TCP connection each they find it, and know when it is done."""

from __future__ import annotations

import socket
from collections.abc import Callable
from time import monotonic, sleep

MEET_SECONDS = 180.0
"""Within which the served process and those that serve must have found each other: some import TensorFlow faster."""
RETRY_SECONDS = 0.1


def accept(address: str, count: int) -> list[socket.socket]:
    """Connections from so many processes that serve this one; TimeoutError if they do not come.

    The address is free again afterwards; the connections are to be kept for as long as this process is to be served.
    """
    host, _, port = address.rpartition(":")
    with socket.create_server((host, int(port))) as listener:
        listener.settimeout(MEET_SECONDS)
        return [listener.accept()[0] for _ in range(count)]


def until_closed(address: str) -> Callable[[], None]:
    """Connect to the process that is to be served; what waits until it closes the connection, or is gone."""
    host, _, port = address.rpartition(":")
    deadline = monotonic() + MEET_SECONDS
    while True:
        try:
            connection = socket.create_connection((host, int(port)), timeout=MEET_SECONDS)
            break
        except OSError:
            if monotonic() > deadline:
                raise
            sleep(RETRY_SECONDS)
    connection.settimeout(None)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def wait() -> None:
        with connection:
            try:
                connection.recv(1)
            except ConnectionError:
                return  # it died

    return wait
