"""A rank that is lost in the middle of a run costs the points that need it, and no other."""

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
from accelbench.execution.ranks import Hello, Peer, RankLost, Ranks
from accelbench.execution.store import RunStore
from accelbench.profiling.ranks.channel import Address, Channel
from accelbench.profiling.ranks.rendezvous import connect, gather, listen
from tests.accelbench.execution.test_ranks import SECRET
from tests.conftest import command, environment, records
from tests.fixtures import report_runs
from tests.fixtures.processes import command_line


def rank_processes(launched: int) -> list[psutil.Process]:
    """Return ranks 0, 1, … of a launch, by the variable that tells each who it is."""
    found = psutil.Process(launched).children()
    return sorted(found, key=lambda process: int(process.environ()["ACCELBENCH_RANK"]))


def await_worker(rank: psutil.Process) -> None:
    deadline = time.monotonic() + 60
    while not any("accelbench.execution.worker" in command_line(each) for each in rank.children()):
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "why"),
    [(signal.SIGKILL, "its connection was lost"), (signal.SIGSTOP, "it gave no sign of life for 25 s")],
    ids=["killed", "silent"],
)
def test_a_rank_that_is_lost_costs_the_points_that_need_it(tmp_path: Path, how: int, why: str) -> None:
    points = ("together", "behave", "--param", "how=hang,well", "--max-seconds", "0.1", "--out", tmp_path / "run")
    launched = subprocess.Popen(
        command("launch", "--procs", "2", "run", *points),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    while len(psutil.Process(launched.pid).children()) < 2:
        time.sleep(0.1)
    _, other = rank_processes(launched.pid)
    await_worker(other)
    time.sleep(3)  # it measures
    os.kill(other.pid, how)
    said, _ = launched.communicate(timeout=200)
    assert launched.returncode == 1, said
    found = {
        (record["point"]["benchmark"], record["point"]["params"].get("how")): record
        for record in records(tmp_path / "run")
    }
    during, after, alone = found["together", "hang"], found["together", "well"], found["behave", None]
    assert (during["status"], during["reason"]) == ("failed", f"rank 1 on node 0: {why}")
    assert (after["status"], after["reason"]) == ("skipped", f"rank 1 on node 0 is lost: {why}")
    assert alone["status"] == "measured"
    assert "rank 1 on " in said
    assert f"was lost: {why}" in said
    assert during["elapsed_s"] < 45  # the half minute that is promised, on a busy machine
    left = RunStore(tmp_path / "run")
    again = {str(turn.point) for turn in left.turns_left(left.lines(), again=["failed", "skipped"])}
    assert len(again) == 2  # once the rank is there again, `resume --failed` measures them


def ranks_of(size: int) -> tuple[Ranks, dict[int, Channel]]:
    """So many ranks as rank 0 has them, and the other ends of their channels."""
    own, *hellos = [
        Hello(rank=rank, size=size, version="1", host="a", environment=report_runs.environment())
        for rank in range(size)
    ]
    with listen(Address("127.0.0.1", 0)) as listener, ThreadPoolExecutor(size) as pool:
        address = Address(*listener.getsockname())
        coming = {rank: pool.submit(connect, address, 10.0, SECRET, rank=rank) for rank in range(1, size)}
        met = gather(listener, range(1, size), 10.0, SECRET)
    peers = [Peer(met[hello.rank], hello) for hello in hellos]
    ranks = Ranks(Cluster(0, size, 0, "a", 1, "srun"), own, peers, SECRET)
    return ranks, {rank: each.result() for rank, each in coming.items()}


def test_points_that_do_not_need_the_lost_rank_go_on() -> None:
    ranks, others = ranks_of(3)
    others[2].close()
    others[1].send(port=1234)
    assert len(ranks.meeting(2).addresses) == 2
    others[1].send(port=1234)
    with pytest.raises(RankLost, match=r"^rank 2 on node 0 is lost: its connection was lost$"):
        ranks.meeting(3)
    assert ranks.lost() == ["rank 2 on a was lost: its connection was lost"]
    others[1].send(port=1234)
    assert ranks.meeting(2).addresses[1] == "127.0.0.1:1234"
    for channel in (others[1], *(peer.channel for peer in ranks.peers)):
        channel.close()


def test_the_workers_of_each_point_have_a_secret_of_their_own() -> None:
    ranks, others = ranks_of(2)
    found = []
    for _ in range(2):
        others[1].send(port=1234)
        found.append(ranks.meeting(2))
    assert found[0].secret != found[1].secret
    assert SECRET not in {found[0].secret, found[1].secret}
    others[1].close()
    ranks.peers[0].channel.close()


def test_a_host_that_is_gone_is_noticed_by_the_kernel() -> None:
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
