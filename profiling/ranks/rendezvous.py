"""Rendezvous of the ranks of a run: TCP connections, authenticated in both directions by a shared secret.

The secret is never sent. The caller sends a nonce (a random number); the listener replies with a nonce of its own and
the HMAC-SHA256 (RFC 2104) of both, keyed with the secret; the caller verifies it and replies in the same way. A proof
covers its sender's role, so that it cannot be reflected, and both nonces, so that it cannot be replayed. The caller's
proof also covers its hello, the message that identifies it.

A peer that fails to authenticate is dropped with one warning and blocks no other peer. Messages are not encrypted.
"""

from __future__ import annotations

import errno
import hmac
import json
import logging
import re
import resource
import socket
from collections.abc import Collection, Generator
from contextlib import closing, suppress
from hashlib import sha256
from secrets import token_hex
from selectors import EVENT_READ, DefaultSelector
from time import monotonic, sleep

from accelbench.profiling.ranks.channel import LINE_BYTES, Address, Channel, Message, family

FIRST_BYTES, HELLO_BYTES = 1 << 10, 1 << 20
"""Limits in bytes of an unauthenticated peer's first line, and of its line with proof and hello."""
HANDSHAKE_SECONDS = 5.0
"""Time limit of a handshake in seconds."""
MAX_PENDING = 64
"""Maximum number of connections in a handshake, in addition to the expected peers; then the oldest is dropped."""
OTHER_FILES = 256
"""Number of open files that are reserved for everything but connections."""
RETRY_SECONDS = 0.1
"""Pause in seconds between two attempts to connect."""
LOST_SECONDS = 30
"""Time in seconds after which the kernel closes the connection to an unresponsive host."""
NONCE = re.compile(r"[0-9a-f]{64}")
MALFORMED = "malformed message"
LISTENER, CALLER, DERIVED = "listener", "caller", "derived"
OPTIONS = {
    "TCP_NODELAY": 1,
    # The first probe is sent after a third of the time, and repeated six times.
    "TCP_KEEPIDLE": LOST_SECONDS // 3,
    "TCP_KEEPINTVL": LOST_SECONDS // 9,
    "TCP_KEEPCNT": 6,
    # By default unacknowledged data is retransmitted for a quarter of an hour.
    "TCP_USER_TIMEOUT": LOST_SECONDS * 1000,
}
"""TCP options; not every system has all of them."""

LOG = logging.getLogger(__name__)


class UnauthenticatedPeer(ConnectionError):
    """Raised if the peer does not have the secret, or is not accelbench."""


class RankRefused(ConnectionError):
    """Raised if the authenticated listener refuses this rank; the message is the reason."""


def derive(secret: str, purpose: str) -> str:
    """Return a secret derived for a purpose; the original secret cannot be recovered from it."""
    return _hmac(secret, DERIVED, purpose)


def connect(address: Address, seconds: float, secret: str, **hello: object) -> Channel:
    """Connect to the listener at this address, authenticate, and send the hello; retry until it listens.

    Raises RankRefused if the listener refuses this rank, and UnauthenticatedPeer or another OSError if no listener with
    the secret was reached within `seconds`.
    """
    _require(secret)
    deadline = monotonic() + seconds
    while True:
        left = max(RETRY_SECONDS, deadline - monotonic())
        try:
            channel = _channel(socket.create_connection(address, timeout=left))
            try:
                _request(channel, secret, hello, left)
            except ConnectionError:
                channel.close()
                raise
            return channel
        except RankRefused:
            raise
        except OSError:
            if monotonic() > deadline:
                raise
            sleep(RETRY_SECONDS)


def listen(address: Address) -> socket.socket:
    """Listen at this address; port 0 selects a free port, an empty host all interfaces. Raises OSError."""
    return socket.create_server(address, family=family(address.host), backlog=socket.SOMAXCONN)


def gather(listener: socket.socket, ranks: Collection[int], seconds: float, secret: str) -> dict[int, Channel]:
    """Return the connections to these ranks by rank, in ascending order, as soon as all have connected.

    The hello of each rank is `rank=…`. Raises TimeoutError if not all connect within `seconds`.
    """
    found: dict[int, Channel] = {}
    with closing(authenticated_peers(listener, secret, monotonic() + seconds, len(ranks))) as coming:
        while len(found) < len(ranks):
            channel, hello = next(coming)
            rank = hello.get("rank")
            if isinstance(rank, int) and rank in ranks and rank not in found:
                accept(channel)
                found[rank] = channel
            else:
                reason = f"rank {rank!r} is not expected here"
                LOG.warning(reason)
                refuse(channel, reason)
    return {rank: found[rank] for rank in sorted(found)}


def authenticated_peers(
    listener: socket.socket, secret: str, deadline: float, expected: int
) -> Generator[tuple[Channel, Message]]:
    """Yield the connection and the hello of each authenticated peer, to be accepted or refused.

    `expected` is the number of peers that may connect at once. Raises TimeoutError at the deadline, a time of
    `time.monotonic`, and OSError if this process may not open that many connections. Other peers are dropped, with one
    warning for each host and reason.
    """
    _require(secret)
    _allow_connections(expected)
    pending: dict[Channel, _PendingConnection] = {}
    named: set[str] = set()

    def drop(connection: _PendingConnection, reason: str) -> None:
        line = f"a connection from {connection.host} to port {port} was dropped: {reason}"
        if line not in named:
            named.add(line)
            LOG.warning(line)
        selector.unregister(connection.channel)
        pending.pop(connection.channel).channel.close()

    listener.setblocking(False)
    port = listener.getsockname()[1]
    with DefaultSelector() as selector:
        selector.register(listener, EVENT_READ)
        try:
            while (now := monotonic()) < deadline:
                first = next((connection.deadline for connection in pending.values()), deadline)
                patience = min(deadline, first) - now
                for key, _ in selector.select(max(0.0, patience)):
                    if key.fileobj is listener:
                        if (connection := _accepted(listener, secret)) is not None:
                            pending[connection.channel] = connection
                            selector.register(connection.channel, EVENT_READ)
                    elif (connection := pending.get(key.fileobj)) is not None:  # type: ignore[call-overload]
                        try:
                            hello = connection.receive_hello()
                        except UnauthenticatedPeer as error:
                            drop(connection, str(error))
                            continue
                        if hello is not None:
                            selector.unregister(connection.channel)
                            yield pending.pop(connection.channel).channel, hello
                while pending and (oldest := next(iter(pending.values()))).deadline <= monotonic():
                    drop(oldest, f"no handshake within {HANDSHAKE_SECONDS:g} s")
                while len(pending) > MAX_PENDING + expected:
                    drop(next(iter(pending.values())), f"more than {MAX_PENDING + expected} pending connections")
            raise TimeoutError
        finally:
            for connection in pending.values():
                connection.channel.close()


def _allow_connections(expected: int) -> None:
    """Raise the soft limit of open files for this number of peers, each with one connection; OSError if impossible."""
    needed = 2 * expected + MAX_PENDING + OTHER_FILES  # connected peers, and as many pending connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        if hard != resource.RLIM_INFINITY and hard < needed:
            raise OSError(errno.EMFILE, f"{expected} peers need {needed} open files; the limit is {hard} (ulimit -Hn)")
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def accept(channel: Channel) -> None:
    """Accept an authenticated peer, and raise the limit for its messages."""
    channel.limit = LINE_BYTES
    channel.send(welcome=True)


def refuse(channel: Channel, reason: str) -> None:
    """Refuse an authenticated peer with this reason and close the connection."""
    channel.send(refused=reason)
    channel.close()


class _PendingConnection:
    """Connection with an incomplete handshake."""

    def __init__(self, end: socket.socket, host: str, secret: str) -> None:
        self.channel = _channel(end)
        self.host = host
        self.deadline = monotonic() + HANDSHAKE_SECONDS
        self._handshake = _authenticate(self.channel, secret)
        next(self._handshake)
        self._answered = False

    def receive_hello(self) -> Message | None:
        """Return the hello, or None while it is outstanding; raise UnauthenticatedPeer if the handshake fails."""
        while message := self.channel.receive(0.0):
            try:
                self._handshake.send(message)
            except StopIteration as end:
                hello: Message = end.value
                return hello
            self._answered = True
        if self.channel.open:
            return None
        if self.channel.fault:
            raise UnauthenticatedPeer(MALFORMED)
        raise UnauthenticatedPeer("wrong secret" if self._answered else "disconnected before the handshake")


def _accepted(listener: socket.socket, secret: str) -> _PendingConnection | None:
    """Return the next connection; None if it is closed already."""
    try:
        end, address = listener.accept()
    except OSError:
        return None
    return _PendingConnection(end, address[0], secret)


def _authenticate(channel: Channel, secret: str) -> Generator[None, Message, Message]:
    """Consume the messages of a handshake, reply to them, and return the hello. Raises UnauthenticatedPeer."""
    message = yield
    theirs, own = _nonce(message), token_hex(32)
    channel.limit = HELLO_BYTES
    channel.send(nonce=own, proof=_proof(secret, LISTENER, theirs, own))
    match (yield):
        case {"proof": str() as proof, "hello": dict() as hello}:
            _check(proof, _proof(secret, CALLER, theirs, own, hello))
            return hello
    raise UnauthenticatedPeer(MALFORMED)


def _request(channel: Channel, secret: str, hello: Message, seconds: float) -> None:
    """Authenticate the listener, then this process, and send the hello."""
    deadline, own = monotonic() + seconds, token_hex(32)
    channel.send(nonce=own)
    channel.limit = HELLO_BYTES
    answer = channel.receive(min(HANDSHAKE_SECONDS, seconds)) or {}
    theirs = _nonce(answer)
    _check(str(answer.get("proof")), _proof(secret, LISTENER, own, theirs))
    channel.send(proof=_proof(secret, CALLER, own, theirs, hello), hello=hello)
    # The listener is authenticated, so its answer may take longer than a handshake.
    match channel.receive(max(RETRY_SECONDS, deadline - monotonic())):
        case {"welcome": True}:
            channel.limit = LINE_BYTES
        case {"refused": str() as reason}:
            raise RankRefused(reason)
        case _:
            raise ConnectionResetError("the listener closed the connection")


def _nonce(message: Message) -> str:
    nonce = message.get("nonce")
    if isinstance(nonce, str) and NONCE.fullmatch(nonce):
        return nonce
    raise UnauthenticatedPeer(MALFORMED)


def _proof(secret: str, role: str, caller: str, listener: str, hello: Message | None = None) -> str:
    """Return the proof of the peer with this role."""
    return _hmac(secret, role, caller, listener, json.dumps(hello, sort_keys=True))


def _check(proof: str, expected: str) -> None:
    if not hmac.compare_digest(_bytes(proof), _bytes(expected)):
        raise UnauthenticatedPeer("the peer does not have this run's secret")


def _hmac(secret: str, *words: str) -> str:
    return hmac.new(_bytes(secret), _bytes("\n".join(("accelbench", *words))), sha256).hexdigest()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # neither environment variables nor a peer's JSON need be valid UTF-8


def _require(secret: str) -> None:
    if not secret:
        raise ValueError("the secret is empty: peers cannot be authenticated")


def _channel(end: socket.socket) -> Channel:
    """Return the channel of a TCP socket, with keep-alive and without Nagle's delay."""
    end.settimeout(None)
    with suppress(OSError):  # a closed connection is reported by the first read
        end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in OPTIONS.items():
            if (option := getattr(socket, name, None)) is not None:
                end.setsockopt(socket.IPPROTO_TCP, option, value)
    return Channel(end, FIRST_BYTES)
