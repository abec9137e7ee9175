"""Tests of several ranks in real processes, started by `accelbench launch` and by hand."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from accelbench.commands.launch import share
from accelbench.execution import gathering, other_rank, ranks
from accelbench.execution.cluster import Cluster
from accelbench.profiling.ranks.channel import Channel, free_port
from accelbench.profiling.records.environment import Environment
from tests.conftest import Run, command, environment, info, records
from tests.fixtures import report_runs
from tests.fixtures.processes import children, has_ended, send_signal, wait_for

SECRET = "known to all ranks of a test"


def await_first_record(run: Path) -> None:
    """Wait for a complete line; a longer one is written in pieces."""
    stored = run / "records.jsonl"
    wait_for(lambda: stored.exists() and b"\n" in stored.read_bytes())


def rank(
    number: int, size: int, port: int, *arguments: str, what: str = "together", **changes: str
) -> subprocess.Popen[str]:
    """Start one rank as an unsupported launcher would."""
    place = {
        "ACCELBENCH_RANK": str(number),
        "ACCELBENCH_RANKS": str(size),
        "ACCELBENCH_COORDINATOR": f"127.0.0.1:{port}",
        "ACCELBENCH_SECRET": SECRET,
    }
    return subprocess.Popen(
        command("run", what, "--max-seconds", "0.1", *arguments),
        env=environment(**place, **changes),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )


@pytest.mark.slow
def test_a_rank_that_dies_or_skips_ends_only_its_point(accelbench: Run, tmp_path: Path) -> None:
    """The other ranks would wait for it forever; the next point has new workers."""
    deaths = {
        "crash": ("SIGSEGV", "rank 1 of 2 is about to fail"),
        "vanish": ("exit status 7", "about to vanish"),
        "fill-memory": ("MemoryError", "fill_memory"),
        "raise": ("ValueError", "break_off"),
    }
    each = "how=" + ",".join((*deaths, "skip", "well"))
    process = accelbench("launch", "--procs", "2", "run", "together", "--param", each, "--out", "run")
    assert process.returncode == 1, process.stdout + process.stderr
    assert "2 ranks of accelbench launch: 2 on " in process.stdout
    *failed, skipped, well = records(tmp_path / "run")
    assert [record["point"]["params"]["how"] for record in failed] == list(deaths)
    for record, (reason, printed) in zip(failed, deaths.values(), strict=True):
        assert record["status"] == "failed"
        assert record["reason"].startswith("rank 1 on node 0: ")
        assert reason in record["reason"]
        assert any(printed in line for line in record["output_tail"])
        assert record["elapsed_s"] < 60  # far from the time limit of 300 s
    assert skipped["status"] == "skipped"
    assert skipped["reason"].startswith("rank 1 on node 0: ")
    assert (well["status"], well["point"]["params"]["processes"], well["work"]["items"]) == ("measured", 2, 2)
    assert [(one["rank"], one["node"]) for one in well["ranks"]] == [(0, 0), (1, 0)]


@pytest.mark.slow
@pytest.mark.exhaustive  # waits half a minute; `test_team` shows it with a shorter limit
def test_a_stopped_rank_is_reported_and_not_the_waiting_ones(accelbench: Run, tmp_path: Path) -> None:
    process = accelbench("launch", "--procs", "2", "run", "together", "--param", "how=stop", "--out", "run")
    assert process.returncode == 1
    (record,) = records(tmp_path / "run")
    assert record["reason"].startswith("rank 1 on node 0: hung")
    assert "30 s" in record["reason"]


@pytest.mark.slow
def test_a_hanging_rank_ends_at_the_time_limit(accelbench: Run, tmp_path: Path) -> None:
    arguments = ("--param", "how=hang", "--time-limit", "12", "--out", "run")
    process = accelbench("launch", "--procs", "2", "run", "together", *arguments)
    assert process.returncode == 1
    (record,) = records(tmp_path / "run")
    assert record["reason"].startswith("ranks 0, 1 hung")
    assert "12 s" in record["reason"]
    assert any("hang" in line for line in record["output_tail"])  # the stacks


@pytest.mark.slow
def test_a_point_with_too_many_processes_is_skipped_with_the_command(accelbench: Run, tmp_path: Path) -> None:
    assert accelbench("run", "together", "--param", "how=well", "--out", "run").returncode == 1
    (record,) = records(tmp_path / "run")
    assert record["status"] == "skipped"
    assert "accelbench launch --procs 2 run" in record["reason"]


def test_launch_starts_only_run_and_resume(accelbench: Run) -> None:
    process = accelbench("launch", "--procs", "2", "doctor")
    assert process.returncode == 2
    assert "doctor" in process.stderr


@pytest.mark.slow
def test_every_rank_prints_the_error_of_the_command(accelbench: Run) -> None:
    process = accelbench("launch", "--procs", "2", "run", "nothing")
    assert process.returncode == 2, process.stderr
    assert "'nothing'" in process.stderr
    assert "[rank 1] " in process.stdout


@pytest.mark.slow
def test_the_last_output_of_ranks_reaches_a_slow_reader(tmp_path: Path) -> None:
    """Output larger than a pipe buffer; Python aborted while a thread was still writing it."""
    name = "x" * 100_000
    arguments = command("launch", "--procs", "2", "run", name)
    launched = subprocess.Popen(arguments, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    started: list[psutil.Process] = []
    while not started and launched.poll() is None:
        started = children(launched.pid)
    psutil.wait_procs(started, timeout=60)
    time.sleep(1)  # a launcher that does not join its thread ends in this time
    printed, _ = launched.communicate(timeout=200)
    assert launched.returncode == 2
    assert printed.count(b"x") >= len(name)


@pytest.mark.slow
def test_an_interrupted_launch_can_be_resumed(accelbench: Run, tmp_path: Path) -> None:
    arguments = ("run", "together", "--param", "how=well,hang", "--time-limit", "60", "--out", tmp_path / "run")
    launched = subprocess.Popen(
        command("launch", "--procs", "2", *arguments), env=environment(), start_new_session=True
    )
    await_first_record(tmp_path / "run")
    started = children(launched.pid, recursive=True)
    os.killpg(launched.pid, signal.SIGINT)
    assert launched.wait(60) == 130
    stored = info(tmp_path / "run")
    assert stored["status"] == "interrupted"
    wait_for(lambda: all(map(has_ended, started)))
    stored["settings"]["time_limit_s"] = 5
    (tmp_path / "run" / "run.json").write_text(json.dumps(stored), encoding="utf-8")
    process = accelbench("launch", "--procs", "2", "resume", "run")
    assert process.returncode == 1  # the point that hangs, at the time limit
    assert [record["status"] for record in records(tmp_path / "run")] == ["measured", "failed"]


@pytest.mark.slow
def test_a_run_can_be_resumed_after_all_processes_of_the_job_were_signalled(tmp_path: Path) -> None:
    """A scheduler signals the processes of a job in any order: here rank 0 comes last."""
    arguments = ("--param", "how=well,hang", "--time-limit", "60")
    out, port = tmp_path / "run", free_port("127.0.0.1")
    first, other = rank(0, 2, port, *arguments, "--out", str(out)), rank(1, 2, port, *arguments)
    await_first_record(out)
    for process in (other, first):
        send_signal(children(process.pid, recursive=True), signal.SIGTERM)
        process.terminate()
        time.sleep(0.5)
    printed, _ = first.communicate(timeout=200)
    other.communicate(timeout=200)
    assert first.returncode == 130, printed
    assert info(out)["status"] == "interrupted"
    assert [record["status"] for record in records(out)] == ["measured"]


def test_missing_ranks_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ranks wait in this process, so that the timeout can be shortened."""
    from accelbench.errors import UserError
    from accelbench.execution.cluster import Cluster
    from accelbench.profiling.machine.environment.collect import collect

    monkeypatch.setattr(gathering, "GATHER_SECONDS", 0.5)
    monkeypatch.setattr(other_rank, "GATHER_SECONDS", 0.5)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    port = free_port("127.0.0.1")
    rank_0 = Cluster(0, 3, 0, "127.0.0.1", port, "srun")
    gathered = gathering.gathered(rank_0, collect())
    with pytest.raises(UserError, match=r"ranks 1, 2 of 3 .* 0\.5 s"):
        gathered.__enter__()
    with pytest.raises(UserError, match=rf"rank 1 .* 127\.0\.0\.1:{port} .*0\.5 s"):
        other_rank.serve(Cluster(1, 3, 1, "127.0.0.1", port, "srun"), collect())


@pytest.mark.slow
def test_ranks_of_different_sizes_end_both(tmp_path: Path) -> None:
    port = free_port("127.0.0.1")
    two, three = rank(0, 2, port, "--out", str(tmp_path / "run")), rank(1, 3, port)
    (of_two, _), (of_three, _) = two.communicate(timeout=90), three.communicate(timeout=90)
    assert (two.returncode, three.returncode) == (2, 2)
    assert all("3 ranks" in output for output in (of_two, of_three))


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = rank(0, 2, port, "--out", str(tmp_path / "run"))
        output, _ = process.communicate(timeout=200)
    assert process.returncode == 2
    assert f"port {port} (Address already in use)" in output


@pytest.mark.slow
def test_differences_between_ranks_are_printed_before_any_result(tmp_path: Path) -> None:
    port = free_port("127.0.0.1")
    unlike = rank(1, 2, port, "--param", "how=well", OMP_NUM_THREADS="7")
    first = rank(0, 2, port, "--param", "how=well", "--out", str(tmp_path / "run"), OMP_NUM_THREADS="1")
    output, _ = first.communicate(timeout=90)
    unlike.communicate(timeout=200)
    assert first.returncode == 0, output
    assert "software.threads.OMP_NUM_THREADS is 7" in " ".join(output.split())
    assert output.index("differs") < output.index("[1/1]")
    (other,) = info(tmp_path / "run")["other_ranks"]
    assert (other["rank"], other["node"]) == (1, 0)
    assert other["environment"]["software"]["threads"]["OMP_NUM_THREADS"] == "7"


@pytest.mark.parametrize(
    ("size", "expected"), [(1, [[0, 1, 2, 3, 4]]), (2, [[0, 1], [2, 3]]), (6, [[0, 1, 2, 3, 4]] * 6)]
)
def test_each_rank_has_its_share_of_the_cores(size: int, expected: list[list[int]]) -> None:
    assert [list(share(number, size, range(5))) for number in range(size)] == expected


def with_gpus(*cards: str) -> Environment:
    """Return an environment with these GPUs."""
    shown = report_runs.environment()
    return shown.model_copy(update={"gpus": [shown.gpus[0].model_copy(update={"uuid_hash": card}) for card in cards]})


def ranks_with(*hosts_and_cards: tuple[str, tuple[str, ...]]) -> ranks.Ranks:
    size = len(hosts_and_cards)
    own, *handshakes = [
        ranks.Handshake(rank=number, size=size, version="1", host=host, environment=with_gpus(*cards))
        for number, (host, cards) in enumerate(hosts_and_cards)
    ]
    peers = [ranks.Peer(Channel(socket.socket()), handshake) for handshake in handshakes]
    return ranks.Ranks(Cluster(0, size, 0, "a", 1, "srun"), own, peers, SECRET)


def test_each_rank_takes_a_gpu_of_its_own() -> None:
    both = ("first", "second")
    assert ranks_with(("a", both), ("a", both), ("b", both)).too_few_gpus(3) is None
    assert ranks_with(("a", ("first",)), ("a", ("second",))).too_few_gpus(2) is None
    crowded = ranks_with(("b", both), ("a", both), ("a", both), ("a", both))
    assert re.findall(r"\d", str(crowded.too_few_gpus(4))) == ["1", "3", "4", "2"], "node, ranks, processes, GPUs"
    assert crowded.too_few_gpus(3) is None
    same = ranks_with(("a", ("first",)), ("a", ("first",)))
    assert re.findall(r"\d", str(same.too_few_gpus(2))) == ["0", "2", "2", "1"]
