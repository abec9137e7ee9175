"""Tests of CPU affinity: one thread per core for kernels, and the unused CPUs in the record."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from accelbench.execution import affinity
from accelbench.execution.affinity import KEPT_TO_SOME, ONE_THREAD, limited_to_one_thread_per_core, with_unused_cpus
from accelbench.profiling.machine.environment.cpu import one_thread_per_core
from accelbench.profiling.records.layout import Layout
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.telemetry import Placement
from tests.fixtures.machines import build, topology


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Affinity masks set on a machine with two sockets of 32 cores with two threads each."""
    root, found = build(tmp_path, topology(packages=2, cores_each=32, threads=2)), []

    @contextmanager
    def on_cpus(cpus: list[int]) -> Iterator[None]:
        found.append(cpus)
        yield

    monkeypatch.setattr(affinity, "on_cpus", on_cpus)
    monkeypatch.setattr(affinity, "one_thread_per_core", lambda cpus: one_thread_per_core(cpus, root))
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(128)))
    return found


def test_a_kernel_has_one_thread_per_core(kept: list[list[int]]) -> None:
    with limited_to_one_thread_per_core({}):
        assert kept == [list(range(64))]


@pytest.mark.parametrize("name", affinity.CHOSEN_BY_USER)
def test_variables_of_the_user_disable_the_limit(name: str, kept: list[list[int]]) -> None:
    with limited_to_one_thread_per_core({name: "128"}):
        assert kept == []


@pytest.mark.parametrize(
    ("host_cores", "processes", "begun_on", "left_out", "reason"),
    [
        (None, 1, [0, 1], [2, 3], ONE_THREAD),
        (2, 1, [0, 1], [2, 3], KEPT_TO_SOME),
        (None, 1, [0, 1, 2, 3], [], None),
        (None, 2, [0, 1], [], None),
        (None, 1, None, [], None),
    ],
)
def test_unused_cpus_are_recorded_with_the_reason(
    host_cores: int | None, processes: int, begun_on: list[int] | None, left_out: list[int], reason: str | None
) -> None:
    record = Record(
        point=Point("stream", "cpu", {}, seed=1, host_cores=host_cores),
        status="measured",
        figure="bytes",
        started=datetime.now(UTC),
        layout=Layout(processes=processes),
        placement=Placement(first=0),
    )
    placement = with_unused_cpus(record, range(4), begun_on).placement
    assert placement is not None
    assert (placement.left_out, placement.left_out_because) == (left_out, reason)
    assert placement.first == 0
