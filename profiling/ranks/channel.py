"""Channel between two processes of a run: messages as lines of JSON over a socket.

A runner and its workers use a socket pair; the ranks of a run use TCP connections, authenticated by
`accelbench.profiling.ranks.rendezvous`.
"""

from __future__ import annotations

import json
import re
import socket
from collections import deque
from contextlib import suppress
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple

LINE_BYTES = 1 << 26
"""Maximum length of a line in bytes; a record has about 20 bytes for each training step."""
PIECE_BYTES = 1 << 20
"""Maximum number of bytes of one read."""

Message = dict[str, Any]


class Address(NamedTuple):
    """Host and port; as text `host:port`, or `[host]:port` for an IPv6 address."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse the text form; raise ValueError if it is invalid."""
        found = re.fullmatch(r"(?:\[([^\s\[\]]+)\]|([^\s:\[\]]+)):([0-9]{1,5})", text)
        if found is None or int(found[3]) > 0xFFFF:
            raise ValueError(f"{text!r} is not HOST:PORT")
        return cls(found[1] or found[2], int(found[3]))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Channel:
    """One end of a connection; several threads may send, and one may read."""

    def __init__(self, end: socket.socket, limit: int = LINE_BYTES) -> None:
        self.open = True
        """Whether more messages may arrive."""
        self.fault: str | None = None
        """The reason why reading stopped, after an invalid message; else None."""
        self.limit = limit
        """Maximum length of a line in bytes."""
        self._socket = end
        self._sending = Lock()
        self._rest = bytearray()
        self._unread: deque[Message] = deque()

    def fileno(self) -> int:
        """Return the file descriptor to wait on."""
        return self._socket.fileno()

    @property
    def hosts(self) -> tuple[str, str]:
        """Return the addresses of this end and of the other end of a TCP connection."""
        return str(self._socket.getsockname()[0]), str(self._socket.getpeername()[0])

    def send(self, **message: Any) -> bool:
        """Send a message; return False if the connection is closed. Raises ValueError for a message over the limit."""
        line = json.dumps(message).encode()
        if len(line) > self.limit:
            raise ValueError(f"a message of {len(line):,} bytes exceeds the limit of {self.limit:,} bytes")
        try:
            with self._sending:
                self._socket.sendall(line + b"\n")
        except OSError:
            return False
        return True

    def read(self) -> list[Message]:
        """Wait for data and return the complete messages; `open` is false after the last."""
        if self.open and not self._unread:
            self._fill(None)
        found, self._unread = list(self._unread), deque()
        return found

    def receive(self, seconds: float | None = None) -> Message | None:
        """Return the next message; None after the time-out, or at the end of the connection."""
        deadline = None if seconds is None else monotonic() + seconds
        while self.open and not self._unread:
            if not self._fill(None if deadline is None else max(0.0, deadline - monotonic())):
                break
        return self._unread.popleft() if self._unread else None

    def answer(self, name: str, seconds: float) -> Any:
        """Return the content of the next message with this key, and drop earlier ones; None after the time-out."""
        deadline = monotonic() + seconds
        while message := self.receive(max(0.0, deadline - monotonic())):
            if name in message:
                return message[name]
        return None

    def close(self) -> None:
        """Close the connection in both directions, even if another process has a copy of this socket."""
        self.open = False
        with suppress(OSError):  # the peer may have closed it already
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _fill(self, seconds: float | None) -> bool:
        """Wait for data and queue the messages that it completes; return False after the time-out."""
        try:
            self._socket.settimeout(seconds)
            piece = self._socket.recv(PIECE_BYTES)
            self._socket.settimeout(None)
        except (BlockingIOError, TimeoutError):
            self._socket.settimeout(None)
            return False
        except OSError:
            piece = b""
        self.open = bool(piece)
        self._rest += piece
        if b"\n" in piece:
            *lines, self._rest = self._rest.split(b"\n")
            for line in lines:
                self._take(line)
        if len(self._rest) > self.limit:
            self._take(self._rest)
        return True

    def _take(self, line: bytearray) -> None:
        message = None
        if len(line) <= self.limit:
            with suppress(ValueError, RecursionError):
                message = json.loads(line)
        if self.open and isinstance(message, dict):
            self._unread.append(message)
        elif self.open:
            self.open = False
            self.fault = f"invalid message (not a JSON object of at most {self.limit:,} bytes): {bytes(line[:40])!r}"


def free_port(host: str) -> int:
    """Return a free TCP port of a host."""
    with socket.socket(family(host)) as trial:
        trial.bind((host, 0))
        return int(trial.getsockname()[1])


def family(host: str) -> socket.AddressFamily:
    """Return the address family of a numeric host address."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET
