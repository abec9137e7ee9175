"""A kernel's process has one thread a core, unless the user chose, and its record says which CPUs it left out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from accelbench.execution import affinity
from accelbench.execution.affinity import KEPT_TO_SOME, ONE_THREAD, one_thread_a_core, with_left_out
from accelbench.profiling.machine.environment.cpu import one_thread_per_core
from accelbench.profiling.records.layout import Layout
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.telemetry import Placement
from tests.fixtures.machines import build, topology


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The CPUs that processes are kept to on a machine of two sockets with 32 cores and two threads each."""
    root, found = build(tmp_path, topology(packages=2, cores_each=32, threads=2)), []

    @contextmanager
    def on_cpus(cpus: list[int]) -> Iterator[None]:
        found.append(cpus)
        yield

    monkeypatch.setattr(affinity, "on_cpus", on_cpus)
    monkeypatch.setattr(affinity, "one_thread_per_core", lambda cpus: one_thread_per_core(cpus, root))
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(128)))
    return found


def test_a_kernel_has_one_thread_of_each_core(kept: list[list[int]]) -> None:
    with one_thread_a_core({}):
        assert kept == [list(range(64))]


@pytest.mark.parametrize("name", affinity.CHOSEN_BY_USER)
def test_what_the_user_chose_is_left_alone(name: str, kept: list[list[int]]) -> None:
    with one_thread_a_core({name: "128"}):
        assert kept == []


@pytest.mark.parametrize(
    ("host_cores", "processes", "begun_on", "left_out", "why"),
    [
        (None, 1, [0, 1], [2, 3], ONE_THREAD),
        (2, 1, [0, 1], [2, 3], KEPT_TO_SOME),
        (None, 1, [0, 1, 2, 3], [], None),
        (None, 2, [0, 1], [], None),
        (None, 1, None, [], None),
    ],
)
def test_a_record_says_which_cpus_were_left_out_and_why(
    host_cores: int | None, processes: int, begun_on: list[int] | None, left_out: list[int], why: str | None
) -> None:
    record = Record(
        point=Point("stream", "cpu", {}, seed=1, host_cores=host_cores),
        status="measured",
        figure="bytes",
        started=datetime.now(UTC),
        layout=Layout(processes=processes),
        placement=Placement(first=0),
    )
    placement = with_left_out(record, range(4), begun_on).placement
    assert placement is not None
    assert (placement.left_out, placement.left_out_because) == (left_out, why)
    assert placement.first == 0
