"""What becomes of the messages and the figures of several ranks that measured one point together."""

from __future__ import annotations

import signal
import socket
from datetime import UTC, datetime
from threading import Timer

import pytest

from accelbench.execution.ranks import Hello, Peer, RemoteWorker
from accelbench.execution.team import Team, Trouble, energy_of_all, failed
from accelbench.execution.worker import Order
from accelbench.profiling.ranks.channel import Channel
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric
from accelbench.profiling.records.record import RankRecord, Record
from tests.fixtures.report_runs import environment


def rank(number: int, node: int, joules: float | None) -> RankRecord:
    metrics = {} if joules is None else {"energy_per_step": Metric(joules, "J")}
    return RankRecord(rank=number, node=node, metrics=metrics | {"test_accuracy": Metric(0.9)})


def test_the_energy_of_a_step_is_that_of_every_ranks_gpu() -> None:
    ranks = [rank(0, 0, 3.0), rank(1, 0, 4.0), rank(2, 1, 5.0)]
    assert energy_of_all(ranks, "gpu") == {"energy_per_step": Metric(12.0, "J")}


def test_the_ranks_of_a_host_read_the_same_cpus_which_count_once() -> None:
    ranks = [rank(0, 0, 3.0), rank(1, 0, 3.1), rank(2, 1, 5.0)]
    assert energy_of_all(ranks, "cpu") == {"energy_per_step": Metric(8.0, "J")}


def test_an_energy_that_one_rank_cannot_read_is_unknown() -> None:
    assert energy_of_all([rank(0, 0, 3.0), rank(1, 1, None)], "gpu") == {"energy_per_step": None}
    assert energy_of_all([rank(0, 0, None), rank(1, 1, None)], "gpu") == {}


POINT = Point("own", "cpu", {})


def record() -> Record:
    """The record of a point that was measured."""
    skipped = failed(POINT, Trouble(0, "no", [], status="skipped"), datetime.now(UTC), figure="time")
    return skipped.model_copy(update={"status": "measured", "reason": None})


def team_of(size: int) -> tuple[Team, list[Channel]]:
    """A team, and what its workers speak through."""
    ends = [socket.socketpair() for _ in range(size)]
    order = Order(point=POINT, environment=environment(), max_seconds=1.0)
    hellos = [Hello(rank=rank, size=size, version="1", host="a", environment=environment()) for rank in range(size)]
    peers = [Peer(Channel(ours), hello) for (ours, _), hello in zip(ends, hellos, strict=True)]
    return Team([RemoteWorker(peer, order, "") for peer in peers], [0] * size), [Channel(end) for _, end in ends]


def say(worker: Channel) -> None:
    """Send the record, and end."""
    worker.send(record=record().model_dump(mode="json"))
    worker.close()


def test_a_worker_that_ends_at_once_after_its_record_has_measured_the_point() -> None:
    team, (worker,) = team_of(1)
    say(worker)
    found, trouble = team.measure(10.0)
    assert trouble is None
    assert found is not None
    assert found.point == POINT


def test_a_worker_that_ends_without_a_record_is_the_points_trouble() -> None:
    team, (worker,) = team_of(1)
    worker.close()
    assert team.measure(10.0)[1] is not None


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        ({"record": {"schema_version": 2}}, "its record is damaged: point: Field required"),
        ({"record": ["a list"]}, "its record is damaged: "),
        (
            {"record": record().model_dump(mode="json") | {"elapsed_s": float("nan")}},
            "its record is damaged: elapsed_s",
        ),
    ],
)
def test_an_odd_record_of_a_rank_is_the_points_trouble(odd: dict[str, object], reason: str) -> None:
    team, (worker,) = team_of(1)
    worker.send(**odd)
    found, trouble = team.measure(10.0)
    assert found is None
    assert trouble is not None
    assert trouble.reason.startswith(reason)


def test_an_odd_sign_of_life_of_a_rank_tells_nothing() -> None:
    team, (worker,) = team_of(1)
    worker.send(beat={"steps": "many"})
    worker.send(beat=None)
    say(worker)
    assert team.measure(10.0)[0] is not None


@pytest.mark.slow
def test_a_rank_that_has_measured_may_end_before_the_others() -> None:
    team, (first, other) = team_of(2)
    say(other)
    late = Timer(0.3, say, (first,))
    late.start()
    found, trouble = team.measure(10.0)
    assert trouble is None
    assert found is not None
    assert [rank.rank for rank in found.ranks] == [0, 1]


def test_a_rank_that_is_gone_is_blamed_and_not_the_one_that_complains_of_it() -> None:
    team, (first, other) = team_of(2)
    complaint = {"status": "failed", "reason": "ConnectionError: rank 1 has ended"}
    first.send(record=record().model_copy(update=complaint).model_dump(mode="json"))
    Timer(0.1, other.close).start()
    _, trouble = team.measure(10.0)
    assert trouble is not None
    assert trouble.reason == "rank 1 on node 0: its connection was lost"


def tell(worker: Channel) -> None:
    """Send the figures, before the profile."""
    worker.send(measured=record().model_dump(mode="json"))


def end(worker: Channel, reason: str, signal: int) -> None:
    """Say that the worker has ended without a record, which was to have a profile."""
    worker.send(ended=reason, signal=signal, tail=[])


def test_a_rank_that_dies_while_it_is_profiled_costs_the_profile_and_not_the_figures() -> None:
    team, (first, other) = team_of(2)
    tell(first), tell(other)
    end(other, "the worker was killed by SIGABRT", signal.SIGABRT)
    complaint = {"status": "failed", "reason": "ConnectionError: rank 1 has ended"}
    first.send(record=record().model_copy(update=complaint).model_dump(mode="json"))
    found, trouble = team.measure(10.0)
    assert trouble is None
    assert found is not None
    assert found.status == "measured"
    assert found.profile is not None
    assert found.profile.bottleneck.reason == "profiling failed: rank 1 on node 0: the worker was killed by SIGABRT"
    assert [rank.rank for rank in found.ranks] == [0, 1]


def test_figures_that_only_one_rank_told_are_none() -> None:
    team, (first, other) = team_of(2)
    tell(first)
    end(other, "the worker was killed by SIGABRT", signal.SIGABRT)
    Timer(0.1, first.close).start()
    found, trouble = team.measure(10.0)
    assert found is None
    assert trouble is not None


def test_a_job_that_is_ended_while_it_is_profiled_has_not_measured_the_point() -> None:
    team, (worker,) = team_of(1)
    tell(worker)
    end(worker, "the worker was killed by SIGTERM", signal.SIGTERM)
    found, trouble = team.measure(10.0)
    assert found is None
    assert trouble is not None
    assert trouble.signal == signal.SIGTERM


def test_a_profile_that_takes_too_long_costs_itself() -> None:
    team, (worker,) = team_of(1)
    tell(worker)
    found, trouble = team.measure(0.3)
    worker.close()
    assert trouble is None
    assert found is not None
    assert found.profile is not None
    assert str(found.profile.bottleneck.reason).startswith("profiling failed: hung: no result within 0.3 s")


def test_a_rank_without_a_sign_of_life_is_lost_though_its_worker_was_never_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("accelbench.execution.ranks.ANSWER_SECONDS", 0.2)
    team, (first, other) = team_of(2)
    ticking = Timer(0.1, first.send, kwargs={"alive": True})
    ticking.start()
    _, trouble = team.measure(60.0)
    assert trouble is not None
    assert trouble.reason.endswith("it gave no sign of life for 0.2 s")
    with team:
        pass  # nobody is waited for once more
    for channel in (first, other):
        channel.close()
