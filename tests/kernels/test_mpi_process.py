"""MPI process of a rank: it outlives the workers, and its errors are reported."""

from __future__ import annotations

import os
import socket
import traceback
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from accelbench.kernels.lib.ranks import mpi_process
from accelbench.kernels.lib.ranks.mpi_process import ADDRESS, in_mpi_process
from accelbench.profiling.benchmark import Skip, Task
from accelbench.profiling.ranks.world import World
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Metric
from accelbench.profiling.records.work import Work

OWN = "tests.kernels.own_mpi_task"


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the variables by which an MPI launcher starts a process."""
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    with mpi_process.mpi_process():
        yield


def prepared(how: str, rank: int = 0) -> Task:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mpi_process, "world", lambda: World(rank=rank, size=2))
        return in_mpi_process(OWN, Point("own", "cpu", {"how": how}, seed=7))


@pytest.mark.usefixtures("launched")
def test_the_mpi_process_runs_tasks_of_consecutive_workers() -> None:
    places = []
    for rank in (0, 1):
        task = prepared("well", rank)
        task.run()
        verification = task.verify()
        assert (verification.expected, verification.found) == (str(rank), "7")
        assert task.work == Work(bytes=5)
        assert task.metrics
        assert task.metrics(3.0) == {"latency": Metric(1.5, "s")}
        assert task.sample
        assert task.sample(5) == 0.5
        assert task.together
        task.together.follow()
        task.together.finish()
        places.append(int(verification.method))
        del task  # the worker ends
    assert places[0] == places[1] != os.getpid()


@pytest.mark.usefixtures("launched")
def test_exceptions_of_the_mpi_process_are_raised_in_the_worker() -> None:
    with pytest.raises(Skip, match="lacks"):
        prepared("skip")
    with pytest.raises(ValueError, match="odd") as caught:
        prepared("raise").run()
    assert "own_mpi_task.py" in "".join(traceback.format_exception(caught.value))  # where it was raised
    with pytest.raises(RuntimeError, match="OddError: how odd"):
        prepared("raise oddly").run()
    prepared("well").run()


@pytest.mark.usefixtures("launched")
def test_an_ended_mpi_process_is_reported() -> None:
    with pytest.raises(RuntimeError, match="has ended"):
        prepared("vanish").run()


def test_a_blocked_mpi_process_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi_process, "HANDSHAKE_SECONDS", 0.1)
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(str(tmp_path / "mpi"))
        busy.listen()
        monkeypatch.setenv(ADDRESS, str(tmp_path / "mpi"))
        with pytest.raises(RuntimeError, match="blocked"):
            prepared("well")


def test_the_mpi_process_ends_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    before = psutil.Process().children()
    with mpi_process.mpi_process():
        address = Path(os.environ[ADDRESS])
        (process,) = set(psutil.Process().children()).difference(before)
    assert not process.is_running()
    assert not address.exists()
    assert ADDRESS not in os.environ


@pytest.mark.parametrize("name", mpi_process.LAUNCHED)
def test_the_mpi_process_starts_only_under_an_mpi_launcher(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in mpi_process.LAUNCHED:
        monkeypatch.delenv(other, raising=False)
    with mpi_process.mpi_process():
        assert ADDRESS not in os.environ
    monkeypatch.setenv(name, "1")
    with mpi_process.mpi_process():
        assert ADDRESS in os.environ
