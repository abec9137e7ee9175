"""Tests of the rendezvous of ranks, and of the jobs that rank 0 sends."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from pydantic import ValidationError

from accelbench import __version__
from accelbench.errors import RunBroken, UserError
from accelbench.execution.cluster import Cluster
from accelbench.execution.gathering import gathered, listener_of
from accelbench.execution.other_rank import job_of
from accelbench.execution.ranks import Handshake, Peer, Ranks, RemoteWorker, own_handshake
from accelbench.execution.worker import WorkerJob
from accelbench.profiling.child import SECRET
from accelbench.profiling.ranks.channel import Address, Channel, free_port
from accelbench.profiling.ranks.rendezvous import RankRefused, connect, derive
from accelbench.profiling.ranks.world import World
from accelbench.profiling.records.point import Point
from tests.fixtures.report_runs import environment

LOCALHOST, SOON = "127.0.0.1", 20.0
KNOWN = "known to all ranks of a test"


def cluster(rank: int, size: int, port: int, host: str = LOCALHOST) -> Cluster:
    return Cluster(rank, size, rank, host, port, "srun")


class Gathering:
    """Rank 0 of `size` ranks, waiting for the others."""

    def __init__(self, size: int, pool: ThreadPoolExecutor) -> None:
        self.size, self.port = size, free_port(LOCALHOST)
        self.ended: Future[list[Handshake]] = pool.submit(self._gather)

    def _gather(self) -> list[Handshake]:
        with gathered(cluster(0, self.size, self.port), environment()) as ranks:
            return ranks.handshakes

    def connect_as(self, rank: Any, **changes: Any) -> Channel:
        """Connect as this rank, with changes to its handshake."""
        received = own_handshake(cluster(1, self.size, self.port), environment()).model_dump(mode="json") | {
            "rank": rank
        }
        return connect(Address(LOCALHOST, self.port), SOON, KNOWN, **(received | changes))


@contextmanager
def gathering(size: int) -> Iterator[Gathering]:
    with ThreadPoolExecutor() as pool:
        yield Gathering(size, pool)


@pytest.fixture(autouse=True)
def known_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET, KNOWN)


@pytest.mark.parametrize("rank", [-1, 0, 7, "one", None])
def test_an_invalid_rank_is_refused_and_the_right_one_accepted_later(rank: Any) -> None:
    with gathering(2) as there:
        with pytest.raises(RankRefused):
            there.connect_as(rank)
        there.connect_as(1).close()
        assert [each.rank for each in there.ended.result()] == [0, 1]


def test_a_second_process_with_the_same_rank_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    with gathering(3) as there:
        first = there.connect_as(1)
        with pytest.raises(RankRefused, match="rank 1: on there and "):
            there.connect_as(1, host="there")
        assert len(caplog.messages) == 1
        there.connect_as(2).close()
        first.close()
        assert [each.rank for each in there.ended.result()] == [0, 1, 2]


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        ({"size": 3}, ("3 ranks", "rank 0", "2")),
        ({"version": "0.0.1"}, ("0.0.1", __version__)),
        ({"version": "0.0.1", "environment": "of another shape"}, ("0.0.1", __version__)),
    ],
)
def test_ranks_of_different_launches_end_both(changes: dict[str, Any], keys: tuple[str, ...]) -> None:
    with gathering(2) as there:
        with pytest.raises(RankRefused) as refused:
            there.connect_as(1, **changes)
        with pytest.raises(UserError) as raised:
            there.ended.result()
    assert str(raised.value) == str(refused.value)
    assert all(key in str(raised.value) for key in keys)


def test_the_port_is_closed_once_all_ranks_are_connected() -> None:
    with ThreadPoolExecutor() as pool:
        port = free_port(LOCALHOST)
        other = pool.submit(
            connect,
            *(Address(LOCALHOST, port), SOON, KNOWN),
            **own_handshake(cluster(1, 2, port), environment()).model_dump(mode="json"),
        )
        with (
            gathered(cluster(0, 2, port), environment()),
            pytest.raises(ConnectionRefusedError),
        ):
            socket.create_connection((LOCALHOST, port))
        other.result().close()


def resolve(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Resolve every host name to these addresses."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *asked, **options: found)


def listening_at(host: str) -> str:
    with listener_of(cluster(0, 2, 0, host)) as listener:
        return str(listener.getsockname()[0])


@pytest.mark.parametrize("host", [LOCALHOST, "::1", pytest.param("localhost", marks=pytest.mark.needs("localhost"))])
def test_one_host_listens_only_at_the_loopback_address(host: str) -> None:
    assert listening_at(host) in {LOCALHOST, "::1"}


def test_rank_0_listens_only_at_the_coordinator_address(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve(monkeypatch, "192.0.2.1", "127.0.0.2")  # the first is reserved for documentation, RFC 5737
    monkeypatch.setattr("accelbench.execution.gathering.is_loopback", lambda host: False)
    assert listening_at("node7") == "127.0.0.2"


@pytest.mark.parametrize("address", ["127.0.1.1", "192.0.2.1"], ids=["loopback", "of another host"])
def test_an_unreachable_coordinator_address_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: Any, address: str
) -> None:
    """Debian resolves a host's own name to a loopback address, which other hosts cannot reach."""
    resolve(monkeypatch, address)
    with caplog.at_level(logging.WARNING):
        assert listening_at("node7") == "0.0.0.0"
    assert "node7" in caplog.text


JOB = WorkerJob(
    point=Point("own", "cpu", {}),
    environment=environment(),
    max_seconds=1.0,
    world=World(rank=1, size=2, secret="secret of rank 0"),
)


def test_the_workers_secret_is_derived_by_each_rank_and_never_sent() -> None:
    ours, theirs = map(Channel, socket.socketpair())
    own, other = (own_handshake(cluster(rank, 2, 1), environment()) for rank in (0, 1))
    RemoteWorker(Peer(ours, other), JOB, "a nonce")
    message = theirs.receive()
    assert message is not None
    assert "secret" not in str(message)
    job = job_of(message, KNOWN)
    assert job.world.secret == derive(KNOWN, "a nonce")
    assert (job.keep, job.code) == (None, None)
    assert Ranks(cluster(0, 2, 1), own, [Peer(ours, other)], KNOWN).size == 2
    ours.close()
    theirs.close()


@pytest.mark.parametrize("path", [{"keep": {"run": "/etc"}}, {"code": "/etc"}, {"keep": None}])
def test_a_job_with_a_path_is_rejected(path: dict[str, Any]) -> None:
    job = JOB.model_dump(mode="json") | path
    with pytest.raises(ValidationError, match=next(iter(path))):
        WorkerJob.model_validate(job)
    with pytest.raises(RunBroken):
        job_of({"start": job, "nonce": "a nonce"}, KNOWN)


def test_the_secret_is_not_printed() -> None:
    assert "secret of rank 0" not in repr(JOB)
