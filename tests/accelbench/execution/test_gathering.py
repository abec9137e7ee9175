"""Rank 0 takes in the ranks of its run, each once, and nobody else; other ranks take orders that name no file."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from pydantic import ValidationError

from accelbench.errors import RunBroken, UserError
from accelbench.execution.cluster import Cluster
from accelbench.execution.gathering import gathered, listener_of
from accelbench.execution.other_rank import job_of
from accelbench.execution.ranks import Hello, Peer, Ranks, RemoteWorker, hello
from accelbench.execution.secret import SECRET
from accelbench.execution.worker import Order
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
    """Rank 0 of so many, that waits for the others."""

    def __init__(self, size: int, pool: ThreadPoolExecutor) -> None:
        self.size, self.port = size, free_port(LOCALHOST)
        self.ended: Future[list[Hello]] = pool.submit(self._gather)

    def _gather(self) -> list[Hello]:
        with gathered(cluster(0, self.size, self.port), environment()) as ranks:
            return ranks.hellos

    def come(self, rank: Any, **changes: Any) -> Channel:
        """Come as this rank, with a hello that is changed so."""
        said = hello(cluster(1, self.size, self.port), environment()).model_dump(mode="json") | {"rank": rank}
        return connect(Address(LOCALHOST, self.port), SOON, KNOWN, **(said | changes))


@contextmanager
def gathering(size: int) -> Iterator[Gathering]:
    with ThreadPoolExecutor() as pool:
        yield Gathering(size, pool)


@pytest.fixture(autouse=True)
def known_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET, KNOWN)


@pytest.mark.parametrize("rank", [-1, 0, 7, "one", None])
def test_a_rank_that_there_cannot_be_is_refused_while_the_true_one_may_still_come(rank: Any) -> None:
    with gathering(2) as there:
        with pytest.raises(RankRefused, match=r"rank 7 of 2|two processes|rank -1 of 2|rank 0 of 2|as no rank"):
            there.come(rank)
        there.come(1).close()
        assert [each.rank for each in there.ended.result()] == [0, 1]


def test_a_second_rank_of_a_number_is_refused_while_others_may_still_come(caplog: pytest.LogCaptureFixture) -> None:
    with gathering(3) as there:
        first = there.come(1)
        with pytest.raises(RankRefused, match="two processes say that they are rank 1: on there and "):
            there.come(1, host="there")
        assert [line.startswith("two processes say") for line in caplog.messages] == [True]
        there.come(2).close()
        first.close()
        assert [each.rank for each in there.ended.result()] == [0, 1, 2]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"size": 3}, "was told of 3 ranks, and rank 0 of 2: they are not of one launch"),
        ({"version": "0.0.1"}, "runs accelbench 0.0.1, and rank 0 "),
        ({"version": "0.0.1", "environment": "of another shape"}, "runs accelbench 0.0.1, and rank 0 "),
    ],
)
def test_ranks_that_are_not_of_one_launch_end_it_at_both_ends(changes: dict[str, Any], complaint: str) -> None:
    with gathering(2) as there:
        with pytest.raises(RankRefused, match=complaint):
            there.come(1, **changes)
        with pytest.raises(UserError, match=complaint):
            there.ended.result()


def test_once_all_are_there_nobody_is_heard_any_more() -> None:
    with ThreadPoolExecutor() as pool:
        port = free_port(LOCALHOST)
        coming = pool.submit(
            connect,
            *(Address(LOCALHOST, port), SOON, KNOWN),
            **hello(cluster(1, 2, port), environment()).model_dump(mode="json"),
        )
        with (
            gathered(cluster(0, 2, port), environment()),
            pytest.raises(ConnectionRefusedError),
        ):
            socket.create_connection((LOCALHOST, port))
        coming.result().close()


def named(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Have every name stand for these addresses."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *asked, **options: found)


def heard_at(host: str) -> str:
    with listener_of(cluster(0, 2, 0, host)) as listener:
        return str(listener.getsockname()[0])


@pytest.mark.parametrize("host", [LOCALHOST, "::1", "localhost"])
def test_ranks_of_one_host_are_awaited_at_the_loopback_address_alone(host: str) -> None:
    assert heard_at(host) in {LOCALHOST, "::1"}


def test_the_coordinator_is_heard_at_its_own_address_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    named(monkeypatch, "192.0.2.1", "127.0.0.2")  # the first is nobody's: it is for documentation, RFC 5737
    monkeypatch.setattr("accelbench.execution.gathering.is_loopback", lambda host: False)
    assert heard_at("node7") == "127.0.0.2"


@pytest.mark.parametrize("address", ["127.0.1.1", "192.0.2.1"], ids=["only itself reaches", "it does not have"])
def test_a_name_for_an_address_that_is_of_no_use_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: Any, address: str
) -> None:
    """Debian gives a host's own name a loopback address, at which no other host reaches it."""
    named(monkeypatch, address)
    with caplog.at_level(logging.WARNING):
        assert heard_at("node7") == "0.0.0.0"
    assert "node7 is no address of this host in the network: rank 0 listens at all of its addresses" in caplog.text


ORDER = Order(
    point=Point("own", "cpu", {}),
    environment=environment(),
    max_seconds=1.0,
    world=World(rank=1, size=2, secret="of rank 0's worker"),
)


def test_the_workers_secret_is_made_by_each_rank_and_sent_to_none() -> None:
    ours, theirs = map(Channel, socket.socketpair())
    own, other = (hello(cluster(rank, 2, 1), environment()) for rank in (0, 1))
    RemoteWorker(Peer(ours, other), ORDER, "a nonce")
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
def test_an_order_that_names_a_file_is_none(path: dict[str, Any]) -> None:
    order = ORDER.model_dump(mode="json") | path
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        Order.model_validate(order)
    with pytest.raises(RunBroken, match="rank 0 gave an order that no rank takes"):
        job_of({"start": order, "nonce": "a nonce"}, KNOWN)


def test_the_secret_is_not_shown_where_a_place_is_printed() -> None:
    assert "of rank 0's worker" not in repr(ORDER)
