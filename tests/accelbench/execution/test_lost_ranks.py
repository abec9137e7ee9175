"""Tests of lost ranks: only the points that need the rank are lost."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from accelbench.execution.cluster import Cluster
from accelbench.execution.ranks import Handshake, Peer, RankLost, Ranks
from accelbench.execution.store import RunStore
from accelbench.profiling.ranks.channel import Address, Channel
from accelbench.profiling.ranks.rendezvous import connect, gather, listen
from tests.accelbench.execution.test_ranks import SECRET
from tests.conftest import command, environment, records
from tests.fixtures import report_runs
from tests.fixtures.processes import children, command_line, environment_of, wait_for


def rank_process(launched: int, rank: int) -> psutil.Process | None:
    """Return the process of this rank of a launch; None if it has not started its program."""
    return next((each for each in children(launched) if environment_of(each).get("ACCELBENCH_RANK") == str(rank)), None)


def has_worker(rank: psutil.Process | None) -> bool:
    """Return whether the rank has started its worker."""
    return bool(rank) and any("accelbench.execution.worker" in command_line(each) for each in children(rank))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        pytest.param(signal.SIGKILL, "its connection was lost", id="killed"),
        # `test_team` shows a shorter silence.
        pytest.param(signal.SIGSTOP, "it sent no heartbeat for 25 s", id="silent", marks=pytest.mark.exhaustive),
    ],
)
def test_a_lost_rank_loses_only_the_points_that_need_it(tmp_path: Path, how: int, reason: str) -> None:
    points = ("together", "behave", "--param", "how=hang,well", "--max-seconds", "0.1", "--out", tmp_path / "run")
    launched = subprocess.Popen(
        command("launch", "--procs", "2", "run", *points),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    wait_for(lambda: has_worker(rank_process(launched.pid, 1)))
    other = rank_process(launched.pid, 1)
    assert other
    time.sleep(3)  # it measures
    os.kill(other.pid, how)
    received, _ = launched.communicate(timeout=200)
    assert launched.returncode == 1, received
    found = {
        (record["point"]["benchmark"], record["point"]["params"].get("how")): record
        for record in records(tmp_path / "run")
    }
    during, after, serial = found["together", "hang"], found["together", "well"], found["behave", None]
    assert (during["status"], during["reason"]) == ("failed", f"rank 1 on node 0: {reason}")
    assert (after["status"], after["reason"]) == ("skipped", f"rank 1 on node 0 is lost: {reason}")
    assert serial["status"] == "measured"
    assert "rank 1 on " in received
    assert f"was lost: {reason}" in received
    assert during["elapsed_s"] < 200  # 25 s without a heartbeat on a busy machine; the time limit is 300 s
    left = RunStore(tmp_path / "run")
    again = {str(scheduled.point) for scheduled in left.remaining_runs(left.lines(), again=["failed", "skipped"])}
    assert len(again) == 2  # `resume --failed` measures them


def ranks_of(size: int) -> tuple[Ranks, dict[int, Channel]]:
    """Return the ranks from the side of rank 0, and the other ends of their channels."""
    own, *handshakes = [
        Handshake(rank=rank, size=size, version="1", host="a", environment=report_runs.environment())
        for rank in range(size)
    ]
    with listen(Address("127.0.0.1", 0)) as listener, ThreadPoolExecutor(size) as pool:
        address = Address(*listener.getsockname())
        connected = {rank: pool.submit(connect, address, 10.0, SECRET, rank=rank) for rank in range(1, size)}
        accepted = gather(listener, range(1, size), 10.0, SECRET)
    peers = [Peer(accepted[handshake.rank], handshake) for handshake in handshakes]
    ranks = Ranks(Cluster(0, size, 0, "a", 1, "srun"), own, peers, SECRET)
    return ranks, {rank: each.result() for rank, each in connected.items()}


def test_points_without_the_lost_rank_are_measured() -> None:
    ranks, others = ranks_of(3)
    others[2].close()
    others[1].send(port=1234)
    assert len(ranks.rendezvous(2).addresses) == 2
    others[1].send(port=1234)
    with pytest.raises(RankLost, match="rank 2 on node 0"):
        ranks.rendezvous(3)
    (lost,) = ranks.lost()
    assert lost.startswith("rank 2 on a ")
    others[1].send(port=1234)
    assert ranks.rendezvous(2).addresses[1] == "127.0.0.1:1234"
    for channel in (others[1], *(peer.channel for peer in ranks.peers)):
        channel.close()


def test_the_workers_of_each_point_have_their_own_secret() -> None:
    ranks, others = ranks_of(2)
    found = []
    for _ in range(2):
        others[1].send(port=1234)
        found.append(ranks.rendezvous(2))
    assert found[0].secret != found[1].secret
    assert SECRET not in {found[0].secret, found[1].secret}
    others[1].close()
    ranks.peers[0].channel.close()


def test_the_kernel_detects_a_dead_host() -> None:
    ranks, others = ranks_of(2)
    with socket.socket(fileno=os.dup(others[1].fileno())) as end:
        idle, interval, count, unacknowledged = (
            end.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT)
        )
        assert end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert idle + interval * count <= 30
    assert unacknowledged <= 30_000
    others[1].close()
    ranks.peers[0].channel.close()
