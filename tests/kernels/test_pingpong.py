"""Ping-pong: messages return unchanged, and changed messages fail the verification."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.kernels.lib.ranks.lockstep import Lockstep
from accelbench.kernels.pingpong import cpu_tcp
from accelbench.kernels.pingpong.trips import Trips, make_task
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.ranks.channel import Channel
from accelbench.profiling.ranks.world import World
from accelbench.profiling.records.point import Point
from tests.conftest import Run, records
from tests.kernels.in_ranks import verified


def point(size: int, impl: str = "tcp") -> Point:
    return Point("pingpong", "cpu", {"impl": impl, "bytes": size, "processes": 2}, seed=7)


def honest(here: World, peer: Channel) -> Trips:
    return cpu_tcp.round_trips(peer, cpu_tcp.ping if here.rank == 0 else cpu_tcp.pong)


def over_sockets(size: int, end: Callable[[World, Channel], Trips] | None = None) -> Callable[[World], Task]:
    def prepare(here: World) -> Task:
        steps = Lockstep(here)
        peer = cpu_tcp.meet(steps, here)
        return make_task(point(size), (end or honest)(here, peer), steps, here)

    return prepare


@pytest.mark.parametrize(("size", "ranks"), [(1, 2), (1000, 2), (1 << 21, 2), (1000, 4)])
def test_random_bytes_come_back(size: int, ranks: int) -> None:
    outcome = verified(ranks, over_sockets(size), times=2)
    assert outcome.passed, outcome


@pytest.mark.parametrize("fault", ["a byte changed", "the last message again", "not from the last rank"])
def test_other_bytes_fail(fault: str) -> None:
    def faulty(here: World, peer: Channel) -> Trips:
        if here.rank == 0:
            return honest(here, peer)
        previous = bytes(1000)

        def trips(payload: Any, returned: Any, loops: int) -> None:
            nonlocal previous
            for _ in range(loops):
                assert cpu_tcp.receive(peer.fileno(), payload)
                arrived = bytes(payload)
                changed = arrived[:-1] + bytes([arrived[-1] ^ 1])
                sent = previous if fault == "the last message again" else changed if "byte" in fault else arrived
                assert cpu_tcp.send(peer.fileno(), np.frombuffer(sent, np.uint8))
                previous = arrived
                if fault == "not from the last rank":
                    payload[0] ^= 1

        return trips

    outcome = verified(2, over_sockets(1000, faulty), times=2)
    assert not outcome.passed, outcome


@settings(max_examples=30, deadline=None)
@given(pieces=st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=20))
def test_a_message_is_received_completely_in_any_pieces(pieces: list[bytes]) -> None:
    there, here = socket.socketpair()
    whole = b"".join(pieces)
    with there, here:
        for piece in pieces:
            there.sendall(piece)
        there.sendall(b"next")
        buffer = np.empty(len(whole), np.uint8)
        assert cpu_tcp.receive(here.fileno(), buffer)
        assert buffer.tobytes() == whole
        assert here.recv(10) == b"next"


@pytest.mark.parametrize("exchange", [cpu_tcp.ping, cpu_tcp.pong])
def test_a_peer_that_closes_in_the_middle_is_an_error(exchange: Any) -> None:
    there, here = socket.socketpair()
    with here:
        there.sendall(b"half")
        there.close()
        array = np.empty(8, np.uint8)
        with pytest.raises(ConnectionError, match="has ended"):
            cpu_tcp.round_trips(Channel(here), exchange)(array, array, 3)


def test_too_little_memory_is_a_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelbench.profiling.machine.free_memory.available_bytes", lambda: 1 << 20)
    with pytest.raises(Skip, match="1 MiB"):
        cpu_tcp.prepare(point(1 << 19))


@pytest.mark.slow
def test_two_processes_measure_latency_and_bandwidth(accelbench: Run, tmp_path: Path) -> None:
    process = accelbench(
        *("launch", "--procs", "2", "run", "pingpong", "--device", "cpu", "--no-ceilings", "--max-seconds", "0.2"),
        *("--param", "impl=tcp", "--param", "bytes=1,100000", "--out", "run"),
    )
    assert process.returncode == 0, process.stdout + process.stderr
    for record in records(tmp_path / "run"):
        assert record["verification"]["passed"]
        latency = record["metrics"]["latency"]["value"]
        assert latency == pytest.approx(record["timing"]["summary"]["median"] / 2)
        # The result is that of NetPIPE: the message divided by half of the round-trip time.
        rate = record["work"]["bytes"] / record["timing"]["summary"]["median"]
        assert rate == pytest.approx(record["point"]["params"]["bytes"] / latency)


def test_the_receive_buffer_is_poisoned() -> None:
    """Without a transfer every byte is wrong."""

    def still(here: World, peer: Channel) -> Trips:
        return lambda payload, returned, loops: None

    outcome = verified(2, over_sockets(1000, still))
    assert not outcome.passed
    assert (outcome.found or "").startswith("1,000 wrong")


def test_payloads_are_random() -> None:
    drawn = []

    def keep(here: World, peer: Channel) -> Trips:
        right = honest(here, peer)

        def trips(payload: Any, returned: Any, loops: int) -> None:
            if here.rank == 0:
                drawn.append(np.array(payload))
            right(payload, returned, loops)

        return trips

    verified(2, over_sockets(4096, keep), times=2)
    assert len({array.tobytes() for array in drawn}) > 1
    assert all(len(np.unique(array)) > 200 for array in drawn)
