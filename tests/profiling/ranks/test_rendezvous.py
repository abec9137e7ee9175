"""Processes that know one secret find each other, and strangers at the same port neither get in nor hold them up."""

from __future__ import annotations

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
SECRET = "known to the ranks of these tests"

Met = Future[dict[int, Channel]]


@contextmanager
def awaited(*ranks: int, seconds: float = SOON) -> Iterator[tuple[Address, Met]]:
    """The address at which these ranks are awaited, and what comes of it."""
    with listen(Address(LOCALHOST, 0)) as listener, ThreadPoolExecutor() as pool:
        met = pool.submit(gather, listener, ranks, seconds, SECRET)
        yield Address(*listener.getsockname()), met
        with suppress(TimeoutError):
            for channel in met.result().values():
                channel.close()


def greeted(address: Address, rank: int) -> None:
    """Come as this rank, and be met."""
    connect(address, SOON, SECRET, rank=rank).close()


def stranger(address: Address, *said: bytes) -> socket.socket:
    """A connection that says this, for as long as it is listened to."""
    end = socket.create_connection(address)
    with suppress(ConnectionError):
        for piece in said:
            end.sendall(piece)
    return end


@pytest.mark.parametrize("host", [LOCALHOST, "::1"])
def test_who_comes_before_the_other_listens_is_met(host: str) -> None:
    address = Address(host, free_port(host))
    with ThreadPoolExecutor() as pool:
        coming = {rank: pool.submit(connect, address, SOON, SECRET, rank=rank) for rank in (2, 1)}
        with listen(address) as listener:
            met = gather(listener, (1, 2), SOON, SECRET)
        with listen(address):
            pass  # the address is free again, though the connections stand
        assert list(met) == [1, 2]
        for rank, channel in met.items():
            assert channel.hosts == (host, host)
            channel.send(told=rank)
            assert coming[rank].result().receive() == {"told": rank}
            channel.close()
            coming[rank].result().close()


NONCE = json.dumps({"nonce": "0" * 64}).encode() + b"\n"
STRANGERS = {
    "silence": [],
    "another protocol": [b"GET / HTTP/1.1\r\n\r\n"],
    "half a message": [b'{"nonce": "'],
    "a hello without proof": [b'{"hello": {"rank": 1}}\n'],
    "a nonce that is none": [b'{"nonce": "short"}\n'],
    "a nonce of another kind": [b'{"nonce": [1]}\n'],
    "a proof that proves nothing": [NONCE, b'{"proof": "' + b"0" * 64 + b'", "hello": {"rank": 1}}\n'],
    "a proof beyond ASCII": [NONCE, json.dumps({"proof": "\udc00", "hello": {"rank": 1}}).encode() + b"\n"],
    "no end of a first line": [b"x" * (FIRST_BYTES + 1)],
    "no end of a second line": [NONCE, b"x" * HELLO_BYTES, b"x"],
    "300 MB without an end": [b"x" * 1_000_000] * 300,
    "line after line": [b'{"nonce": "' + b"0" * 64 + b'"}\n'] * 1000,
}


@pytest.mark.parametrize("said", STRANGERS.values(), ids=STRANGERS)
def test_a_stranger_holds_nobody_up(said: list[bytes]) -> None:
    with awaited(1) as (address, met), stranger(address, *said):
        greeted(address, 1)
        assert list(met.result()) == [1]


def test_fifty_strangers_and_more_than_are_let_in_hold_nobody_up() -> None:
    with awaited(1, 2) as (address, met), ExitStack() as stack:
        for count in (50, MAX_PENDING + 50):
            for _ in range(count):
                stack.enter_context(stranger(address))
            greeted(address, 1 if count == 50 else 2)
        assert list(met.result()) == [1, 2]


@settings(max_examples=20, deadline=None)
@given(
    said=st.lists(st.one_of(st.binary(max_size=200), st.just(b"\n"), st.just(NONCE)), max_size=6), ends=st.booleans()
)
def test_whatever_a_stranger_says_the_next_is_met(said: list[bytes], ends: bool) -> None:
    with awaited(1) as (address, met), stranger(address, *said) as end:
        if ends:
            with suppress(OSError):  # it may have been let go by now
                end.shutdown(socket.SHUT_WR)
        greeted(address, 1)
        assert list(met.result()) == [1]


def test_strangers_are_named_in_one_line_each_kind(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    monkeypatch.setattr(rendezvous, "HANDSHAKE_SECONDS", 0.3)
    with caplog.at_level(logging.WARNING), awaited(1) as (address, met), ExitStack() as stack:
        for said in ([], [], [b"GET / HTTP/1.1\r\n\r\n"], STRANGERS["a proof that proves nothing"]):
            stack.enter_context(stranger(address, *said))
        stranger(address).close()
        with pytest.raises(UnauthenticatedPeer):
            connect(address, 0.5, "not the same secret", rank=1)
        greeted(address, 1)
        met.result()
    assert all(f"{LOCALHOST} to port {address.port}" in line for line in caplog.messages)
    assert len(set(caplog.messages)) == 5
    assert len(caplog.messages) == 5


def test_a_caller_tells_nothing_to_a_listener_that_does_not_know_the_secret() -> None:
    """The listener was there first, and answers whatever it likes; what is sent back is no answer, either."""
    heard: list[bytes] = []

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
                heard.append(end.recv(1 << 20))
                end.sendall(heard[-1] if answer is None else answer)
                end.shutdown(socket.SHUT_WR)
                while said := end.recv(1 << 20):
                    heard.append(said)

    with listen(Address(LOCALHOST, 0)) as false:
        Thread(target=listen_falsely, args=(false,), daemon=True).start()
        with pytest.raises((UnauthenticatedPeer, ConnectionRefusedError, ConnectionResetError, TimeoutError)):
            connect(Address(*false.getsockname()), 1.5, SECRET, rank=1, private="environment")
    assert len(heard) == 5
    assert not any(b"hello" in said or b"proof" in said or SECRET.encode() in said for said in heard)


Tamper = Callable[[bytes, bool], bytes]


@contextmanager
def relayed(to: Address, tamper: Tamper) -> Iterator[tuple[Address, list[tuple[bytes, bool]]]]:
    """An address that passes on what is said, and keeps it, with whether the caller said it."""
    kept: list[tuple[bytes, bool]] = []

    def pass_on(source: socket.socket, target: socket.socket, from_caller: bool) -> None:
        with suppress(OSError):
            while said := source.recv(1 << 20):
                kept.append((said, from_caller))
                target.sendall(tamper(said, from_caller))
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


def test_the_secret_is_not_told_and_no_proof_can_be_used_again() -> None:
    with awaited(1, 2) as (address, met):
        with relayed(address, lambda said, from_caller: said) as (relay, kept):
            greeted(relay, 1)
        assert not any(SECRET.encode() in said for said, _ in kept)
        again = [said for said, from_caller in kept if from_caller]
        assert len(again) >= 2
        with stranger(address, *again), stranger(address, *(said for said, from_caller in kept if not from_caller)):
            greeted(address, 2)
        assert list(met.result()) == [1, 2]


def test_a_hello_that_was_changed_on_its_way_is_none() -> None:
    with awaited(1, 2) as (address, met):
        change: Tamper = lambda said, from_caller: said.replace(b'"rank": 1', b'"rank": 2') if from_caller else said  # noqa: E731
        with relayed(address, change) as (relay, _), pytest.raises((ConnectionResetError, UnauthenticatedPeer)):
            connect(relay, 0.5, SECRET, rank=1)
        assert not met.done()
        greeted(address, 1)
        greeted(address, 2)


@pytest.mark.parametrize("rank", [0, -1, 7, 1, None, "2"])
def test_a_rank_that_is_not_awaited_is_refused_and_told_so(rank: Any) -> None:
    with awaited(1, 2) as (address, met):
        greeted(address, 1)
        with pytest.raises(RankRefused, match=f"rank {rank!r}"):
            connect(address, SOON, SECRET, rank=rank)
        greeted(address, 2)
        assert list(met.result()) == [1, 2]


def test_nobody_is_awaited_for_ever() -> None:
    with listen(Address(LOCALHOST, 0)) as listener, pytest.raises(TimeoutError):
        gather(listener, [1], 0.1, SECRET)
    with pytest.raises(ConnectionRefusedError):
        connect(Address(LOCALHOST, free_port(LOCALHOST)), 0.1, SECRET)


def test_a_port_where_nobody_ever_answers_is_left() -> None:
    with socket.create_server((LOCALHOST, 0)) as silent, pytest.raises(UnauthenticatedPeer):
        connect(Address(*silent.getsockname()), 0.2, SECRET)


@given(one=st.text(min_size=1), other=st.text(min_size=1), purpose=st.text())
def test_derived_secrets_differ_as_those_that_they_were_made_of(one: str, other: str, purpose: str) -> None:
    assert derive(one, purpose) == derive(one, purpose)
    assert (derive(one, purpose) == derive(other, purpose)) == (one == other)
    assert derive(one, purpose) != derive(one, purpose + "2")


def test_without_a_secret_nobody_is_let_in() -> None:
    with pytest.raises(ValueError, match="secret"):
        connect(Address(LOCALHOST, 1), 0.1, "", rank=1)
