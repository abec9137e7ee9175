"""Rendezvous: ranks with the same secret connect; unauthenticated peers are dropped and do not delay them."""

from __future__ import annotations

import errno
import json
import logging
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from threading import Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.profiling.ranks import rendezvous
from accelbench.profiling.ranks.channel import Address, Channel, free_port
from accelbench.profiling.ranks.rendezvous import (
    FIRST_BYTES,
    HELLO_BYTES,
    MAX_PENDING,
    RankRefused,
    UnauthenticatedPeer,
    connect,
    derive,
    gather,
    listen,
)

LOCALHOST = "127.0.0.1"
SOON = 20.0
SECRET = "the secret of the ranks in these tests"

Gathered = Future[dict[int, Channel]]


@contextmanager
def gathering(*ranks: int, seconds: float = SOON) -> Iterator[tuple[Address, Gathered]]:
    """Gather these ranks in a thread; yield the address and the future connections."""
    with listen(Address(LOCALHOST, 0)) as listener, ThreadPoolExecutor() as pool:
        met = pool.submit(gather, listener, ranks, seconds, SECRET)
        yield Address(*listener.getsockname()), met
        with suppress(TimeoutError):
            for channel in met.result().values():
                channel.close()


def connect_and_close(address: Address, rank: int) -> None:
    connect(address, SOON, SECRET, rank=rank).close()


def unauthenticated(address: Address, *sent: bytes) -> socket.socket:
    """Return a connection that has sent these bytes, or as many as the listener read before closing it."""
    end = socket.create_connection(address)
    with suppress(ConnectionError):
        for piece in sent:
            end.sendall(piece)
    return end


@pytest.mark.parametrize("host", [LOCALHOST, "::1"])
def test_a_rank_may_connect_before_the_listener_exists(host: str) -> None:
    address = Address(host, free_port(host))
    with ThreadPoolExecutor() as pool:
        coming = {rank: pool.submit(connect, address, SOON, SECRET, rank=rank) for rank in (2, 1)}
        with listen(address) as listener:
            met = gather(listener, (1, 2), SOON, SECRET)
        with listen(address):
            pass  # the address is free again, although the connections are open
        assert list(met) == [1, 2]
        for rank, channel in met.items():
            assert channel.hosts == (host, host)
            channel.send(rank=rank)
            assert coming[rank].result().receive() == {"rank": rank}
            channel.close()
            coming[rank].result().close()


NONCE = json.dumps({"nonce": "0" * 64}).encode() + b"\n"
INVALID = {
    "silence": [],
    "another protocol": [b"GET / HTTP/1.1\r\n\r\n"],
    "partial message": [b'{"nonce": "'],
    "hello without proof": [b'{"hello": {"rank": 1}}\n'],
    "short nonce": [b'{"nonce": "short"}\n'],
    "nonce of another type": [b'{"nonce": [1]}\n'],
    "wrong proof": [NONCE, b'{"proof": "' + b"0" * 64 + b'", "hello": {"rank": 1}}\n'],
    "proof that is not ASCII": [NONCE, json.dumps({"proof": "\udc00", "hello": {"rank": 1}}).encode() + b"\n"],
    "first line without end": [b"x" * (FIRST_BYTES + 1)],
    "second line without end": [NONCE, b"x" * HELLO_BYTES, b"x"],
    "300 MB without line end": [b"x" * 1_000_000] * 300,
    "repeated nonces": [b'{"nonce": "' + b"0" * 64 + b'"}\n'] * 1000,
}


@pytest.mark.parametrize("sent", INVALID.values(), ids=INVALID)
def test_an_unauthenticated_peer_delays_no_rank(sent: list[bytes]) -> None:
    with gathering(1) as (address, met), unauthenticated(address, *sent):
        connect_and_close(address, 1)
        assert list(met.result()) == [1]


def test_more_pending_connections_than_the_limit_delay_no_rank() -> None:
    with gathering(1, 2) as (address, met), ExitStack() as stack:
        for count in (50, MAX_PENDING + 50):
            for _ in range(count):
                stack.enter_context(unauthenticated(address))
            connect_and_close(address, 1 if count == 50 else 2)
        assert list(met.result()) == [1, 2]


def test_a_thousand_ranks_connect_at_once() -> None:
    ranks = range(1, 1001)
    with listen(Address(LOCALHOST, 0)) as listener, ThreadPoolExecutor(len(ranks) + 1) as pool:
        met = pool.submit(gather, listener, ranks, 6 * SOON, SECRET)
        address = Address(*listener.getsockname())
        callers = list(pool.map(lambda rank: connect(address, 6 * SOON, SECRET, rank=rank), ranks))
        for channel in [*callers, *met.result().values()]:
            channel.close()
        assert list(met.result()) == list(ranks)


def test_too_few_open_files_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous.resource, "getrlimit", lambda _: (100, 1000))
    with listen(Address(LOCALHOST, 0)) as listener, pytest.raises(OSError, match="ulimit") as raised:
        gather(listener, range(1, 1001), SOON, SECRET)
    assert raised.value.errno == errno.EMFILE


@settings(max_examples=20, deadline=None)
@given(
    sent=st.lists(st.one_of(st.binary(max_size=200), st.just(b"\n"), st.just(NONCE)), max_size=6), ends=st.booleans()
)
def test_random_bytes_of_a_peer_delay_no_rank(sent: list[bytes], ends: bool) -> None:
    with gathering(1) as (address, met), unauthenticated(address, *sent) as end:
        if ends:
            with suppress(OSError):  # the listener may have closed it
                end.shutdown(socket.SHUT_WR)
        connect_and_close(address, 1)
        assert list(met.result()) == [1]


def test_one_warning_for_each_reason_to_drop_a_peer(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    monkeypatch.setattr(rendezvous, "HANDSHAKE_SECONDS", 2.0)
    with caplog.at_level(logging.WARNING), gathering(1) as (address, met), ExitStack() as stack:
        for sent in ([], [], [b"GET / HTTP/1.1\r\n\r\n"], INVALID["wrong proof"]):
            stack.enter_context(unauthenticated(address, *sent))
        unauthenticated(address).close()
        with pytest.raises(UnauthenticatedPeer):
            connect(address, 2.5, "not the same secret", rank=1)
        connect_and_close(address, 1)
        met.result()
    assert all(f"{LOCALHOST} to port {address.port}" in line for line in caplog.messages)
    assert len(set(caplog.messages)) == 5
    assert len(caplog.messages) == 5


def test_a_caller_sends_neither_hello_nor_proof_to_a_listener_without_the_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The false listener answers with nothing, text, a nonce, the caller's own message, and a wrong proof."""
    monkeypatch.setattr(rendezvous, "RETRY_SECONDS", 0.01)
    received: list[bytes] = []

    def listen_falsely(listener: socket.socket) -> None:
        for answer in (
            b"",
            b"hello\n",
            NONCE,
            None,
            b'{"nonce": "' + b"0" * 64 + b'", "proof": "' + b"0" * 64 + b'"}\n',
        ):
            end, _ = listener.accept()
            with end:
                received.append(end.recv(1 << 20))
                end.sendall(received[-1] if answer is None else answer)
                end.shutdown(socket.SHUT_WR)
                while piece := end.recv(1 << 20):
                    received.append(piece)

    with listen(Address(LOCALHOST, 0)) as false:
        Thread(target=listen_falsely, args=(false,), daemon=True).start()
        with pytest.raises((UnauthenticatedPeer, ConnectionRefusedError, ConnectionResetError, TimeoutError)):
            connect(Address(*false.getsockname()), 1.5, SECRET, rank=1, private="environment")
    assert len(received) == 5
    assert not any(b"hello" in piece or b"proof" in piece or SECRET.encode() in piece for piece in received)


Tamper = Callable[[bytes, bool], bytes]


@contextmanager
def relayed(to: Address, tamper: Tamper) -> Iterator[tuple[Address, list[tuple[bytes, bool]]]]:
    """Relay connections through `tamper`; yield the relay's address and the bytes sent, with whether by the caller."""
    kept: list[tuple[bytes, bool]] = []

    def pass_on(source: socket.socket, target: socket.socket, from_caller: bool) -> None:
        with suppress(OSError):
            while sent := source.recv(1 << 20):
                kept.append((sent, from_caller))
                target.sendall(tamper(sent, from_caller))
            target.shutdown(socket.SHUT_WR)

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                caller, _ = listener.accept()
                there = socket.create_connection(to)
                for ends in ((caller, there, True), (there, caller, False)):
                    Thread(target=pass_on, args=ends, daemon=True).start()

    with listen(Address(LOCALHOST, 0)) as listener:
        Thread(target=serve, args=(listener,), daemon=True).start()
        yield Address(*listener.getsockname()), kept
        listener.shutdown(socket.SHUT_RDWR)


def test_the_secret_is_not_sent_and_no_proof_can_be_replayed() -> None:
    with gathering(1, 2) as (address, met):
        with relayed(address, lambda sent, from_caller: sent) as (relay, kept):
            connect_and_close(relay, 1)
        assert not any(SECRET.encode() in sent for sent, _ in kept)
        by_caller, by_listener = ([sent for sent, of_caller in kept if of_caller == own] for own in (True, False))
        assert len(by_caller) >= 2
        with unauthenticated(address, *by_caller), unauthenticated(address, *by_listener):
            connect_and_close(address, 2)
        assert list(met.result()) == [1, 2]


def test_a_modified_hello_is_not_authenticated() -> None:
    with gathering(1, 2) as (address, met):
        change: Tamper = lambda sent, from_caller: sent.replace(b'"rank": 1', b'"rank": 2') if from_caller else sent  # noqa: E731
        with relayed(address, change) as (relay, _), pytest.raises((ConnectionResetError, UnauthenticatedPeer)):
            connect(relay, 0.5, SECRET, rank=1)
        assert not met.done()
        connect_and_close(address, 1)
        connect_and_close(address, 2)


@pytest.mark.parametrize("rank", [0, -1, 7, 1, None, "2"])
def test_an_unexpected_rank_is_refused(rank: Any) -> None:
    with gathering(1, 2) as (address, met):
        connect_and_close(address, 1)
        with pytest.raises(RankRefused, match=f"rank {rank!r}"):
            connect(address, SOON, SECRET, rank=rank)
        connect_and_close(address, 2)
        assert list(met.result()) == [1, 2]


def test_gather_and_connect_time_out() -> None:
    with listen(Address(LOCALHOST, 0)) as listener, pytest.raises(TimeoutError):
        gather(listener, [1], 0.1, SECRET)
    with pytest.raises(ConnectionRefusedError):
        connect(Address(LOCALHOST, free_port(LOCALHOST)), 0.1, SECRET)


def test_connect_times_out_if_the_listener_never_answers() -> None:
    with socket.create_server((LOCALHOST, 0)) as silent, pytest.raises(UnauthenticatedPeer):
        connect(Address(*silent.getsockname()), 0.2, SECRET)


@given(one=st.text(min_size=1), other=st.text(min_size=1), purpose=st.text())
def test_derived_secrets_are_equal_only_for_equal_secrets_and_purposes(one: str, other: str, purpose: str) -> None:
    assert derive(one, purpose) == derive(one, purpose)
    assert (derive(one, purpose) == derive(other, purpose)) == (one == other)
    assert derive(one, purpose) != derive(one, purpose + "2")


def test_an_empty_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="secret"):
        connect(Address(LOCALHOST, 1), 0.1, "", rank=1)
