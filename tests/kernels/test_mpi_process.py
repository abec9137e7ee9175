"""The process that holds a rank's place in MPI: it outlives the workers, and what happens there is told here."""

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
def test_a_task_is_run_there_for_one_worker_after_the_other() -> None:
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
def test_what_goes_wrong_there_goes_wrong_here() -> None:
    with pytest.raises(Skip, match="this rank lacks something"):
        prepared("skip")
    with pytest.raises(ValueError, match="the input is odd") as caught:
        prepared("raise").run()
    assert "own_mpi_task.py" in "".join(traceback.format_exception(caught.value))  # where it was raised
    with pytest.raises(RuntimeError, match="OddError: how odd"):
        prepared("raise oddly").run()
    prepared("well").run()


@pytest.mark.usefixtures("launched")
def test_the_end_of_that_process_is_told() -> None:
    with pytest.raises(RuntimeError, match="the process that holds this rank's place in MPI has ended"):
        prepared("vanish").run()


def test_an_operation_that_never_ends_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi_process, "GREETING_SECONDS", 0.1)
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(str(tmp_path / "mpi"))
        busy.listen()
        monkeypatch.setenv(ADDRESS, str(tmp_path / "mpi"))
        with pytest.raises(RuntimeError, match="held up in an operation that an earlier point broke off"):
            prepared("well")


def test_it_ends_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    before = psutil.Process().children()
    with mpi_process.mpi_process():
        address = Path(os.environ[ADDRESS])
        (process,) = set(psutil.Process().children()).difference(before)
    assert not process.is_running()
    assert not address.exists()
    assert ADDRESS not in os.environ


@pytest.mark.parametrize("name", mpi_process.LAUNCHED)
def test_it_is_there_only_where_mpi_launched_the_ranks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in mpi_process.LAUNCHED:
        monkeypatch.delenv(other, raising=False)
    with mpi_process.mpi_process():
        assert ADDRESS not in os.environ
    monkeypatch.setenv(name, "1")
    with mpi_process.mpi_process():
        assert ADDRESS in os.environ
