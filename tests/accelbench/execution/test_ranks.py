"""Several processes that measure one point together: real ones, started by `accelbench launch` and by hand."""

from __future__ import annotations

import os
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

SECRET = "known to all ranks of a test"


def await_first_record(run: Path) -> None:
    deadline = time.monotonic() + 60
    while not (run / "records.jsonl").exists() or not records(run):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def rank(
    number: int, size: int, port: int, *arguments: str, what: str = "together", **changes: str
) -> subprocess.Popen[str]:
    """One rank, started as an unknown launcher would."""
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
def test_two_ranks_measure_a_point_into_one_run(accelbench: Run, tmp_path: Path) -> None:
    process = accelbench("launch", "--procs", "2", "run", "together", "--param", "how=well", "--out", "run")
    assert process.returncode == 0, process.stdout + process.stderr
    assert "2 ranks of accelbench launch: 2 on " in process.stdout
    (record,) = records(tmp_path / "run")
    assert record["point"]["params"]["processes"] == 2
    assert record["work"]["items"] == 2
    assert [(one["rank"], one["node"]) for one in record["ranks"]] == [(0, 0), (1, 0)]


@pytest.mark.slow
def test_a_rank_that_dies_ends_the_point_and_is_named(accelbench: Run, tmp_path: Path) -> None:
    """The others would wait for it for ever; the next point is measured by new workers."""
    deaths = {
        "crash": ("the worker was killed by SIGSEGV", "rank 1 of 2 is about to fail"),
        "vanish": ("the worker ended without a result, exit status 7", "about to vanish"),
        "fill-memory": ("MemoryError: cannot allocate 1 EB", "fill_memory"),
        "raise": ("ValueError: the input is odd", "break_off"),
    }
    each = "how=" + ",".join((*deaths, "well"))
    process = accelbench("launch", "--procs", "2", "run", "together", "--param", each, "--out", "run")
    assert process.returncode == 1, process.stdout + process.stderr
    *failed, well = records(tmp_path / "run")
    assert [record["point"]["params"]["how"] for record in failed] == list(deaths)
    for record, (reason, printed) in zip(failed, deaths.values(), strict=True):
        assert record["status"] == "failed"
        assert record["reason"].startswith(f"rank 1 on node 0: {reason}")
        assert any(printed in line for line in record["output_tail"])
        assert record["elapsed_s"] < 60  # far from the time limit of 300 s
    assert well["status"] == "measured"


@pytest.mark.slow
def test_a_rank_that_is_stopped_is_told_from_those_that_wait_for_it(accelbench: Run, tmp_path: Path) -> None:
    process = accelbench("launch", "--procs", "2", "run", "together", "--param", "how=stop", "--out", "run")
    assert process.returncode == 1
    (record,) = records(tmp_path / "run")
    assert record["reason"] == "rank 1 on node 0: hung: no sign of life for 30 s"


@pytest.mark.slow
def test_a_hanging_rank_ends_at_the_time_limit(accelbench: Run, tmp_path: Path) -> None:
    arguments = ("--param", "how=hang", "--time-limit", "8", "--out", "run")
    process = accelbench("launch", "--procs", "2", "run", "together", *arguments)
    assert process.returncode == 1
    (record,) = records(tmp_path / "run")
    assert record["reason"] == "ranks 0, 1 hung: no result within 8 s"
    assert any("hang" in line for line in record["output_tail"])  # where they stand


@pytest.mark.slow
def test_what_one_rank_cannot_measure_is_skipped_by_all(accelbench: Run, tmp_path: Path) -> None:
    process = accelbench("launch", "--procs", "2", "run", "together", "--param", "how=skip", "--out", "run")
    assert process.returncode == 1, process.stdout + process.stderr
    (record,) = records(tmp_path / "run")
    assert (record["status"], record["reason"]) == ("skipped", "rank 1 on node 0: this rank lacks something")


@pytest.mark.slow
def test_more_processes_than_there_are_is_a_skip_that_says_how_to_start_them(accelbench: Run, tmp_path: Path) -> None:
    assert accelbench("run", "together", "--param", "how=well", "--out", "run").returncode == 1
    (record,) = records(tmp_path / "run")
    assert record["status"] == "skipped"
    assert "takes 2 processes, and this run has 1: 'accelbench launch --procs 2 run …'" in record["reason"]


def test_only_what_measures_is_launched(accelbench: Run) -> None:
    process = accelbench("launch", "--procs", "2", "doctor")
    assert process.returncode == 2
    assert "starts run or resume, not 'doctor'" in process.stderr


@pytest.mark.slow
def test_every_rank_says_what_is_wrong_with_the_command(accelbench: Run) -> None:
    process = accelbench("launch", "--procs", "2", "run", "nothing")
    assert process.returncode == 2, process.stderr
    assert "no benchmark is called 'nothing'" in process.stderr
    assert "[rank 1] " in process.stdout


@pytest.mark.slow
def test_what_the_ranks_say_last_is_printed_for_a_reader_who_is_slow(tmp_path: Path) -> None:
    """More than a pipe takes, which a thread was still writing when Python ended: it aborted."""
    name = "x" * 100_000
    arguments = command("launch", "--procs", "2", "run", name)
    launched = subprocess.Popen(arguments, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    started: list[psutil.Process] = []
    while not started and launched.poll() is None:
        started = psutil.Process(launched.pid).children()
    psutil.wait_procs(started, timeout=60)
    time.sleep(1)  # in which a launcher that does not wait for its thread ends
    printed, _ = launched.communicate(timeout=60)
    assert launched.returncode == 2
    assert printed.count(b"x") >= len(name)


@pytest.mark.slow
def test_an_interrupted_launch_leaves_a_run_to_go_on_with(accelbench: Run, tmp_path: Path) -> None:
    arguments = ("run", "together", "--param", "how=well,hang", "--time-limit", "15", "--out", tmp_path / "run")
    launched = subprocess.Popen(
        command("launch", "--procs", "2", *arguments), env=environment(), start_new_session=True
    )
    await_first_record(tmp_path / "run")
    started = psutil.Process(launched.pid).children(recursive=True)
    os.killpg(launched.pid, signal.SIGINT)
    assert launched.wait(60) == 130
    assert info(tmp_path / "run")["status"] == "interrupted"
    _, alive = psutil.wait_procs(started, timeout=20)
    assert not alive
    process = accelbench("launch", "--procs", "2", "resume", "run")
    assert process.returncode == 1  # the point that hangs, at the time limit
    assert [record["status"] for record in records(tmp_path / "run")] == ["measured", "failed"]


@pytest.mark.slow
def test_a_job_whose_every_process_is_signalled_leaves_a_run_to_go_on_with(tmp_path: Path) -> None:
    """A scheduler signals the processes of a job in any order: here rank 0 comes last."""
    arguments = ("--param", "how=well,hang", "--time-limit", "60")
    out, port = tmp_path / "run", free_port("127.0.0.1")
    first, other = rank(0, 2, port, *arguments, "--out", str(out)), rank(1, 2, port, *arguments)
    await_first_record(out)
    for process in (other, first):
        for one in [*psutil.Process(process.pid).children(recursive=True), process]:
            one.send_signal(signal.SIGTERM)
        time.sleep(0.5)
    printed, _ = first.communicate(timeout=60)
    other.communicate(timeout=60)
    assert first.returncode == 130, printed
    assert info(out)["status"] == "interrupted"
    assert [record["status"] for record in records(out)] == ["measured"]


def test_ranks_that_do_not_come_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ranks wait in this process, so that the minute's patience can be cut short."""
    from accelbench.errors import UserError
    from accelbench.execution.cluster import Cluster
    from accelbench.profiling.machine.environment.collect import collect

    monkeypatch.setattr(gathering, "GATHER_SECONDS", 0.5)
    monkeypatch.setattr(other_rank, "GATHER_SECONDS", 0.5)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    port = free_port("127.0.0.1")
    rank_0 = Cluster(0, 3, 0, "127.0.0.1", port, "srun")
    gathered = gathering.gathered(rank_0, collect())
    with pytest.raises(UserError, match=r"ranks 1, 2 of 3 did not come .* within 0.5 s \(1 on "):
        gathered.__enter__()
    with pytest.raises(UserError, match=rf"rank 1 did not reach rank 0 at 127.0.0.1:{port} within 0.5 s"):
        other_rank.serve(Cluster(1, 3, 1, "127.0.0.1", port, "srun"), collect())


@pytest.mark.slow
def test_ranks_of_different_worlds_do_not_mix(tmp_path: Path) -> None:
    port = free_port("127.0.0.1")
    two, three = rank(0, 2, port, "--out", str(tmp_path / "run")), rank(1, 3, port)
    (of_two, _), (of_three, _) = two.communicate(timeout=90), three.communicate(timeout=90)
    complaint = "was told of 3 ranks, and rank 0 of 2: they are not of one launch"
    assert (two.returncode, three.returncode) == (2, 2)
    assert complaint in of_two
    assert complaint in of_three


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = rank(0, 2, port, "--out", str(tmp_path / "run"))
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert f"rank 0 cannot listen at port {port} (Address already in use)" in output


@pytest.mark.slow
def test_ranks_that_are_not_alike_are_reported_before_any_figure(tmp_path: Path) -> None:
    port = free_port("127.0.0.1")
    unlike = rank(1, 2, port, "--param", "how=well", OMP_NUM_THREADS="7")
    first = rank(0, 2, port, "--param", "how=well", "--out", str(tmp_path / "run"), OMP_NUM_THREADS="1")
    output, _ = first.communicate(timeout=90)
    unlike.communicate(timeout=30)
    assert first.returncode == 0, output
    assert "differs from rank 0: software.threads.OMP_NUM_THREADS is 7, not 1" in " ".join(output.split())
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
    """An environment that shows these cards."""
    shown = report_runs.environment()
    return shown.model_copy(update={"gpus": [shown.gpus[0].model_copy(update={"uuid_hash": card}) for card in cards]})


def ranks_with(*hosts_and_cards: tuple[str, tuple[str, ...]]) -> ranks.Ranks:
    size = len(hosts_and_cards)
    own, *hellos = [
        ranks.Hello(rank=number, size=size, version="1", host=host, environment=with_gpus(*cards))
        for number, (host, cards) in enumerate(hosts_and_cards)
    ]
    peers = [ranks.Peer(Channel(socket.socket()), hello) for hello in hellos]
    return ranks.Ranks(Cluster(0, size, 0, "a", 1, "srun"), own, peers, SECRET)


def test_each_rank_takes_a_gpu_of_its_own() -> None:
    both = ("first", "second")
    assert ranks_with(("a", both), ("a", both), ("b", both)).too_few_gpus(3) is None
    assert ranks_with(("a", ("first",)), ("a", ("second",))).too_few_gpus(2) is None
    crowded = ranks_with(("b", both), ("a", both), ("a", both), ("a", both))
    assert crowded.too_few_gpus(4) == "3 of its 4 processes are on node 1, and see 2 GPUs there"
    assert crowded.too_few_gpus(3) is None
    same = ranks_with(("a", ("first",)), ("a", ("first",)))
    assert same.too_few_gpus(2) == "2 of its 2 processes are on node 0, and see 1 GPUs there"
