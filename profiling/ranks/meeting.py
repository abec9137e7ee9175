"""The processes of a run meet: each proves to the other that it knows the run's secret, before it is told anything.

The secret itself never goes over the wire. Who connects sends a nonce, a number that it drew; who listens answers with
a nonce of its own, and with the HMAC-SHA256 (RFC 2104), by the secret, of both; who connects checks that, and answers
alike. Each end's proof names its role, so that none can be sent back as the other's, and both nonces, so that none can
be used again. The caller's also covers its hello, the message by which it introduces itself.

Whoever proves nothing is let go and named in one line, and holds nobody up. What is said afterwards is not encrypted.
"""

from __future__ import annotations

import hmac
import json
import logging
import re
import socket
from collections.abc import Collection, Generator
from contextlib import closing, suppress
from hashlib import sha256
from secrets import token_hex
from selectors import EVENT_READ, DefaultSelector
from time import monotonic, sleep

from accelbench.profiling.ranks.channel import LINE_BYTES, Address, Channel, Message, family

FIRST_BYTES, HELLO_BYTES = 1 << 10, 1 << 20
"""The longest first line, and the longest line with a proof and a hello, in bytes, that are read from a stranger."""
HELLO_SECONDS = 5.0
"""The time in seconds in which a process that has connected must introduce itself."""
GUESTS = 64
"""The most connections that may be about to introduce themselves; one more, and the oldest of them is let go."""
RETRY_SECONDS = 0.1
"""The pause before a process that does not listen yet is tried again."""
LOST_SECONDS = 30
"""The time in seconds after which a host that does not answer any more is given up by the kernel."""
NONCE = re.compile(r"[0-9a-f]{64}")
NOT_UNDERSTOOD = "it sent what accelbench does not understand"
LISTENER, CALLER, DERIVED = "listener", "caller", "derived"
OPTIONS = {
    "TCP_NODELAY": 1,
    # Silence is asked about after a third of the time, and the question repeated six times.
    "TCP_KEEPIDLE": LOST_SECONDS // 3,
    "TCP_KEEPINTVL": LOST_SECONDS // 9,
    "TCP_KEEPCNT": 6,
    # What was sent, and is not acknowledged, would else be repeated for a quarter of an hour, and milliseconds count.
    "TCP_USER_TIMEOUT": LOST_SECONDS * 1000,
}
"""The options of a connection by TCP; not every system has all of them."""

LOG = logging.getLogger(__name__)


class Stranger(ConnectionError):
    """The process at the other end does not know the secret, or is none of accelbench."""


class Refused(ConnectionError):
    """The process at the other end knows the secret, and has no place for this one; it says why."""


def derive(secret: str, purpose: str) -> str:
    """Return another secret for this purpose, which tells nothing of the first."""
    return _hmac(secret, DERIVED, purpose)


def connect(address: Address, seconds: float, secret: str, **hello: object) -> Channel:
    """Connect to a process that listens at this address, or is about to, and introduce this one by the hello.

    Refused if that has no place for this one. Stranger, or another OSError, if no process that knows the secret is
    reached within so many seconds.
    """
    _require(secret)
    deadline = monotonic() + seconds
    while True:
        left = max(RETRY_SECONDS, deadline - monotonic())
        try:
            channel = _channel(socket.create_connection(address, timeout=left))
            try:
                _introduce(channel, secret, hello, left)
            except ConnectionError:
                channel.close()
                raise
            return channel
        except Refused:
            raise
        except OSError:
            if monotonic() > deadline:
                raise
            sleep(RETRY_SECONDS)


def listen(address: Address) -> socket.socket:
    """Listen at this address, at a free port if that is 0, and at all of this host's if its host is empty.

    OSError if that cannot be.
    """
    return socket.create_server(address, family=family(address.host), backlog=socket.SOMAXCONN)


def gather(listener: socket.socket, ranks: Collection[int], seconds: float, secret: str) -> dict[int, Channel]:
    """Return the connections to these ranks, by their numbers and in their order, once each of them has come.

    The hello of each is `rank=…`. TimeoutError if not all come within so many seconds.
    """
    found: dict[int, Channel] = {}
    with closing(arrivals(listener, secret, monotonic() + seconds)) as coming:
        while len(found) < len(ranks):
            channel, hello = next(coming)
            rank = hello.get("rank")
            if isinstance(rank, int) and rank in ranks and rank not in found:
                welcome(channel)
                found[rank] = channel
            else:
                reason = f"rank {rank!r} is not awaited here"
                LOG.warning(reason)
                refuse(channel, reason)
    return {rank: found[rank] for rank in sorted(found)}


def arrivals(listener: socket.socket, secret: str, deadline: float) -> Generator[tuple[Channel, Message]]:
    """Yield the connection to each process that proves to know the secret, and its hello, for a welcome or a refusal.

    TimeoutError at the deadline, a moment of `time.monotonic`. Strangers are let go, one line for each kind and host.
    """
    _require(secret)
    guests: dict[Channel, _Guest] = {}
    named: set[str] = set()

    def let_go(guest: _Guest, reason: str) -> None:
        line = f"a connection from {guest.host} to port {port} was dropped: {reason}"
        if line not in named:
            named.add(line)
            LOG.warning(line)
        selector.unregister(guest.channel)
        guests.pop(guest.channel).channel.close()

    listener.setblocking(False)
    port = listener.getsockname()[1]
    with DefaultSelector() as selector:
        selector.register(listener, EVENT_READ)
        try:
            while (now := monotonic()) < deadline:
                patience = min([deadline, *(guest.deadline for guest in guests.values())]) - now
                for key, _ in selector.select(max(0.0, patience)):
                    if key.fileobj is listener:
                        if (guest := _accepted(listener, secret)) is not None:
                            guests[guest.channel] = guest
                            selector.register(guest.channel, EVENT_READ)
                    elif (guest := guests.get(key.fileobj)) is not None:  # type: ignore[call-overload]
                        try:
                            hello = guest.hear()
                        except Stranger as stranger:
                            let_go(guest, str(stranger))
                            continue
                        if hello is not None:
                            selector.unregister(guest.channel)
                            yield guests.pop(guest.channel).channel, hello
                late = [guest for guest in guests.values() if guest.deadline <= monotonic()]
                for guest in late:
                    let_go(guest, f"it did not introduce itself within {HELLO_SECONDS:g} s")
                while len(guests) > GUESTS:
                    let_go(next(iter(guests.values())), f"more than {GUESTS} others wait to introduce themselves")
            raise TimeoutError
        finally:
            for guest in guests.values():
                guest.channel.close()


def welcome(channel: Channel) -> None:
    """Tell a process that has introduced itself that it is in its place; longer messages are read from now on."""
    channel.limit = LINE_BYTES
    channel.send(welcome=True)


def refuse(channel: Channel, reason: str) -> None:
    """Tell a process that has introduced itself why there is no place for it, and let it go."""
    channel.send(refused=reason)
    channel.close()


class _Guest:
    """A process that has connected, and has not introduced itself yet."""

    def __init__(self, end: socket.socket, host: str, secret: str) -> None:
        self.channel = _channel(end)
        self.host = host
        self.deadline = monotonic() + HELLO_SECONDS
        self._dialogue = _examine(self.channel, secret)
        next(self._dialogue)
        self._answered = False

    def hear(self) -> Message | None:
        """Return its hello, if it has come to that; Stranger if it is none of ours."""
        while message := self.channel.receive(0.0):
            try:
                self._dialogue.send(message)
            except StopIteration as end:
                hello: Message = end.value
                return hello
            self._answered = True
        if self.channel.open:
            return None
        if self.channel.fault:
            raise Stranger(NOT_UNDERSTOOD)
        raise Stranger("it knows another secret than this run's" if self._answered else "it left without a word")


def _accepted(listener: socket.socket, secret: str) -> _Guest | None:
    """Return the next guest; None where it has left already."""
    try:
        end, address = listener.accept()
    except OSError:
        return None
    return _Guest(end, address[0], secret)


def _examine(channel: Channel, secret: str) -> Generator[None, Message, Message]:
    """Take a guest's messages, answer them, and return its hello; Stranger if it is none of ours."""
    message = yield
    theirs, own = _nonce(message), token_hex(32)
    channel.limit = HELLO_BYTES
    channel.send(nonce=own, proof=_proof(secret, LISTENER, theirs, own))
    match (yield):
        case {"proof": str() as proof, "hello": dict() as hello}:
            _check(proof, _proof(secret, CALLER, theirs, own, hello))
            return hello
    raise Stranger(NOT_UNDERSTOOD)


def _introduce(channel: Channel, secret: str, hello: Message, seconds: float) -> None:
    """Prove to the listener at the other end that this process knows the secret, once that has done the same."""
    deadline, own = monotonic() + seconds, token_hex(32)
    channel.send(nonce=own)
    channel.limit = HELLO_BYTES
    answer = channel.receive(min(HELLO_SECONDS, seconds)) or {}
    theirs = _nonce(answer)
    _check(str(answer.get("proof")), _proof(secret, LISTENER, own, theirs))
    channel.send(proof=_proof(secret, CALLER, own, theirs, hello), hello=hello)
    # Who listens is known now, and may take its time.
    match channel.receive(max(RETRY_SECONDS, deadline - monotonic())):
        case {"welcome": True}:
            channel.limit = LINE_BYTES
        case {"refused": str() as reason}:
            raise Refused(reason)
        case _:
            raise ConnectionResetError("who listens there has ended")


def _nonce(message: Message) -> str:
    nonce = message.get("nonce")
    if isinstance(nonce, str) and NONCE.fullmatch(nonce):
        return nonce
    raise Stranger(NOT_UNDERSTOOD)


def _proof(secret: str, role: str, caller: str, listener: str, hello: Message | None = None) -> str:
    """Return the proof of an end that has this role, by the nonces of both."""
    return _hmac(secret, role, caller, listener, json.dumps(hello, sort_keys=True))


def _check(proof: str, expected: str) -> None:
    if not hmac.compare_digest(_bytes(proof), _bytes(expected)):
        raise Stranger("it does not know this run's secret")


def _hmac(secret: str, *words: str) -> str:
    return hmac.new(_bytes(secret), _bytes("\n".join(("accelbench", *words))), sha256).hexdigest()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # a variable need not hold UTF-8, nor does a stranger's JSON


def _require(secret: str) -> None:
    if not secret:
        raise ValueError("processes that know no secret cannot be told from strangers")


def _channel(end: socket.socket) -> Channel:
    """Return a connection by TCP that ends with a host that is gone, and sends small messages at once."""
    end.settimeout(None)
    with suppress(OSError):  # it may have ended already, as the first reading tells
        end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in OPTIONS.items():
            if (option := getattr(socket, name, None)) is not None:
                end.setsockopt(socket.IPPROTO_TCP, option, value)
    return Channel(end, FIRST_BYTES)
