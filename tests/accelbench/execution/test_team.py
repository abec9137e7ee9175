"""Tests of `Team`: records, messages and failures of several ranks that measure one point."""

from __future__ import annotations

import signal
import socket
from datetime import UTC, datetime
from threading import Thread, Timer
from time import sleep

import pytest

from accelbench.execution.ranks import Handshake, Peer, RemoteWorker
from accelbench.execution.team import PointFailure, Team, energy_of_all, failed
from accelbench.execution.worker import WorkerJob
from accelbench.profiling.ranks.channel import Channel
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric
from accelbench.profiling.records.record import RankRecord, Record
from tests.fixtures.report_runs import environment


def rank(number: int, node: int, joules: float | None) -> RankRecord:
    metrics = {} if joules is None else {"energy_per_step": Metric(joules, "J")}
    return RankRecord(rank=number, node=node, metrics=metrics | {"test_accuracy": Metric(0.9)})


def test_energy_of_a_step_is_the_sum_over_all_gpus() -> None:
    ranks = [rank(0, 0, 3.0), rank(1, 0, 4.0), rank(2, 1, 5.0)]
    assert energy_of_all(ranks, "gpu") == {"energy_per_step": Metric(12.0, "J")}


def test_cpu_energy_counts_once_per_host() -> None:
    ranks = [rank(0, 0, 3.0), rank(1, 0, 3.1), rank(2, 1, 5.0)]
    assert energy_of_all(ranks, "cpu") == {"energy_per_step": Metric(8.0, "J")}


def test_energy_is_unknown_if_one_rank_lacks_it() -> None:
    assert energy_of_all([rank(0, 0, 3.0), rank(1, 1, None)], "gpu") == {"energy_per_step": None}
    assert energy_of_all([rank(0, 0, None), rank(1, 1, None)], "gpu") == {}


POINT = Point("own", "cpu", {})


def record() -> Record:
    """Return the record of a measured point."""
    skipped = failed(POINT, PointFailure(0, "no", [], status="skipped"), datetime.now(UTC), figure="time")
    return skipped.model_copy(update={"status": "measured", "reason": None})


def team_of(size: int) -> tuple[Team, list[Channel]]:
    """Return a team and the channels of its workers."""
    ends = [socket.socketpair() for _ in range(size)]
    job = WorkerJob(point=POINT, environment=environment(), max_seconds=1.0)
    handshakes = [
        Handshake(rank=rank, size=size, version="1", host="a", environment=environment()) for rank in range(size)
    ]
    peers = [Peer(Channel(ours), handshake) for (ours, _), handshake in zip(ends, handshakes, strict=True)]
    return Team([RemoteWorker(peer, job, "") for peer in peers], [0] * size), [Channel(end) for _, end in ends]


def send_record(worker: Channel) -> None:
    """Send the record and close the channel."""
    worker.send(record=record().model_dump(mode="json"))
    worker.close()


def test_a_worker_may_end_directly_after_its_record() -> None:
    team, (worker,) = team_of(1)
    send_record(worker)
    found, failure = team.measure(10.0)
    assert failure is None
    assert found is not None
    assert found.point == POINT


def test_a_worker_without_a_record_is_a_failure() -> None:
    team, (worker,) = team_of(1)
    worker.close()
    assert team.measure(10.0)[1] is not None


@pytest.mark.parametrize(
    ("invalid", "field"),
    [
        ({"record": {"schema_version": 2}}, "point"),
        ({"record": ["a list"]}, "invalid"),
        (
            {"record": record().model_dump(mode="json") | {"elapsed_s": float("nan")}},
            "elapsed_s",
        ),
    ],
)
def test_an_invalid_record_of_a_rank_is_a_failure(invalid: dict[str, object], field: str) -> None:
    team, (worker,) = team_of(1)
    worker.send(**invalid)
    found, failure = team.measure(10.0)
    assert found is None
    assert failure is not None
    assert field in failure.reason


def test_invalid_heartbeats_are_ignored() -> None:
    team, (worker,) = team_of(1)
    worker.send(heartbeat={"steps": "many"})
    worker.send(heartbeat=None)
    send_record(worker)
    assert team.measure(10.0)[0] is not None


@pytest.mark.slow
def test_a_rank_that_has_measured_may_end_before_the_others() -> None:
    team, (first, other) = team_of(2)
    send_record(other)
    late = Timer(0.3, send_record, (first,))
    late.start()
    found, failure = team.measure(10.0)
    assert failure is None
    assert found is not None
    assert [rank.rank for rank in found.ranks] == [0, 1]


def test_the_lost_rank_is_reported_and_not_the_rank_that_reports_the_loss() -> None:
    team, (first, other) = team_of(2)
    complaint = {"status": "failed", "reason": "ConnectionError: rank 1 has ended"}
    first.send(record=record().model_copy(update=complaint).model_dump(mode="json"))
    Timer(0.1, other.close).start()
    _, failure = team.measure(10.0)
    assert failure is not None
    assert failure.rank == 1
    assert failure.lost
    assert "rank 1 on node 0" in failure.reason


def send_measured(worker: Channel) -> None:
    """Send the measured record, before profiling."""
    worker.send(measured=record().model_dump(mode="json"))


def send_ended(worker: Channel, reason: str, signal: int) -> None:
    """Report that the worker ended without its final record."""
    worker.send(ended=reason, signal=signal, tail=[])


def test_a_rank_that_dies_during_profiling_loses_only_the_profile() -> None:
    team, (first, other) = team_of(2)
    send_measured(first), send_measured(other)
    send_ended(other, "the worker was killed by SIGABRT", signal.SIGABRT)
    complaint = {"status": "failed", "reason": "ConnectionError: rank 1 has ended"}
    first.send(record=record().model_copy(update=complaint).model_dump(mode="json"))
    found, failure = team.measure(10.0)
    assert failure is None
    assert found is not None
    assert found.status == "measured"
    assert found.profile is not None
    assert "rank 1" in str(found.profile.bottleneck.reason)
    assert "SIGABRT" in str(found.profile.bottleneck.reason)
    assert [rank.rank for rank in found.ranks] == [0, 1]


def test_a_measured_record_of_only_one_rank_is_not_enough() -> None:
    team, (first, other) = team_of(2)
    send_measured(first)
    send_ended(other, "the worker was killed by SIGABRT", signal.SIGABRT)
    Timer(0.1, first.close).start()
    found, failure = team.measure(10.0)
    assert found is None
    assert failure is not None


def test_a_job_that_is_ended_during_profiling_has_not_measured_the_point() -> None:
    team, (worker,) = team_of(1)
    send_measured(worker)
    send_ended(worker, "the worker was killed by SIGTERM", signal.SIGTERM)
    found, failure = team.measure(10.0)
    assert found is None
    assert failure is not None
    assert failure.signal == signal.SIGTERM


def test_a_profile_that_exceeds_the_time_limit_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelbench.execution.ranks.ANSWER_SECONDS", 2.0)
    team, (worker,) = team_of(1)
    send_measured(worker)
    found, failure = team.measure(0.3)
    worker.close()
    assert failure is None
    assert found is not None
    assert found.profile is not None
    assert "within 0.3 s" in str(found.profile.bottleneck.reason)


def test_a_rank_without_heartbeats_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelbench.execution.ranks.ANSWER_SECONDS", 0.2)
    team, (first, other) = team_of(2)
    ticking = Timer(0.1, first.send, kwargs={"alive": True})
    ticking.start()
    _, failure = team.measure(60.0)
    assert failure is not None
    assert failure.lost
    assert "for 0.2 s" in failure.reason
    with team:
        pass  # closing does not wait again
    for channel in (first, other):
        channel.close()


def send_heartbeats(worker: Channel) -> None:
    while worker.send(heartbeat={"stage": "step", "steps": 3}):
        sleep(0.05)


def send_stack(worker: Channel) -> None:
    """Answer the first request for the stack."""
    if worker.answer("tail_and_stack", 60.0):
        worker.send(tail_and_stack=["the stack"])


def test_a_rank_with_a_stopped_worker_is_hung_and_not_the_waiting_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelbench.execution.team.SILENCE_SECONDS", 1.0)
    team, (first, other) = team_of(2)
    other.send(heartbeat={"stage": "step", "steps": 3})
    for play, worker in ((send_heartbeats, first), (send_stack, other)):
        Thread(target=play, args=(worker,), daemon=True).start()
    _, failure = team.measure(60.0)
    for channel in (first, other):
        channel.close()
    assert failure is not None
    assert (failure.rank, failure.lost, failure.tail) == (1, False, ["the stack"])
    assert "no heartbeat for 1 s" in failure.reason
