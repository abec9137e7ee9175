"""Tests of CPU placement: recorded CPUs, and pinning of single-core points."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from accelbench.profiling.benchmark import Benchmark, Task
from accelbench.profiling.machine import placement
from accelbench.profiling.machine.environment.collect import collect
from accelbench.profiling.machine.placement import ThreadPlacement, cpu_for_one_core, current_cpu, slow_cpu_flags
from accelbench.profiling.measure.point import measure
from accelbench.profiling.records.environment import CoreKind
from accelbench.profiling.records.point import Point
from accelbench.profiling.records.quality import Verification
from accelbench.profiling.records.record import Record
from accelbench.profiling.records.telemetry import Placement
from accelbench.profiling.records.work import Cores, Work

EVERYWHERE = sorted(os.sched_getaffinity(0))


@pytest.fixture(autouse=True)
def left_everywhere() -> Iterator[None]:
    yield
    assert sorted(os.sched_getaffinity(0)) == EVERYWHERE


def measured(
    cores: Cores, bandwidths: dict[int, float] | None = None, kinds: list[CoreKind] | None = None
) -> tuple[Record, set[frozenset[int]]]:
    """Return the record of a point with these cores, and the affinity mask of its last execution."""
    masks: list[frozenset[int]] = []

    def prepare(point: Point) -> Task:
        def run() -> None:
            masks.append(frozenset(os.sched_getaffinity(0)))

        return Task(run, lambda: Verification(passed=True, method="none"), Work(items=1))

    facts: dict[str, Any] = {"metric": "items", "cores": cores}
    environment = collect()
    cpu = environment.cpu.model_copy(update={"bandwidths": bandwidths or {}, "kinds": kinds or []})
    environment = environment.model_copy(update={"cpu": cpu})
    record = measure(Benchmark("look", prepare, ("cpu",), {}, **facts), Point("look", "cpu", {}), environment, 0.05)
    assert record.status == "measured", record.reason
    return record, set(masks[-1:])


def test_a_one_core_point_is_pinned_and_records_its_first_and_last_cpu() -> None:
    record, masks = measured("one")
    assert record.placement is not None
    assert record.placement.pinned
    assert record.placement.first == record.placement.last
    assert record.placement.allowed == [record.placement.first]
    assert masks == {frozenset(record.placement.allowed)}


def test_a_point_of_all_cores_is_not_pinned() -> None:
    record, masks = measured("all")
    assert record.placement is not None
    assert not record.placement.pinned
    assert record.placement.allowed == EVERYWHERE
    assert {record.placement.first, record.placement.last} <= set(EVERYWHERE)
    assert masks == {frozenset(EVERYWHERE)}


@pytest.mark.needs("two-cpus")
@pytest.mark.parametrize("slow", EVERYWHERE[:2])
def test_a_one_core_point_avoids_a_cpu_that_is_slower_in_the_probe(slow: int) -> None:
    record, _ = measured("one", {cpu: 1e11 if cpu == slow else 2e11 for cpu in EVERYWHERE[:2]})
    assert record.placement is not None
    assert record.placement.allowed != [slow]
    assert record.noise == [flag for flag in record.noise if "in the probe" not in flag]


def test_among_equal_cpus_the_thread_stays_on_its_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "current_cpu", lambda: 1)
    monkeypatch.setattr(placement, "collect_affinity", lambda: [0, 1, 2])
    assert cpu_for_one_core({0: 200e9, 1: 195e9, 2: 100e9}) == 1
    assert cpu_for_one_core({}) == 1
    assert cpu_for_one_core({0: 200e9, 1: 100e9, 2: 190e9}) == 0


@pytest.mark.needs("two-cpus")
@pytest.mark.parametrize("fast", EVERYWHERE[:2])
def test_a_one_core_point_runs_on_the_fastest_kind_of_core_and_records_it(fast: int) -> None:
    slow = [cpu for cpu in EVERYWHERE if cpu != fast]
    record, _ = measured("one", kinds=[CoreKind(name="P-core", cpus=[fast]), CoreKind(name="E-core", cpus=slow)])
    assert record.placement is not None
    assert (record.placement.allowed, record.placement.core_kind) == ([fast], "P-core")


def test_a_point_of_all_cores_or_on_cores_of_one_kind_records_no_kind() -> None:
    for record, _ in (measured("all", kinds=[CoreKind(name="P-core", cpus=EVERYWHERE)]), measured("one")):
        assert record.placement is not None
        assert record.placement.core_kind is None


@pytest.mark.parametrize(
    ("allowed", "bandwidths", "chosen"),
    [
        ([0, 1, 2, 3], {}, 2),
        ([0, 1, 2, 3], {0: 9e11, 2: 2e11, 3: 3e11}, 3),
        ([0, 1, 3], {}, 3),
        ([0, 1], {0: 1e11, 1: 1e11}, 0),
    ],
)
def test_the_chosen_cpu_is_of_the_fastest_usable_kind(
    monkeypatch: pytest.MonkeyPatch, allowed: list[int], bandwidths: dict[int, float], chosen: int
) -> None:
    kinds = [CoreKind(name="Cortex-X925", cpus=[2, 3]), CoreKind(name="Cortex-A725", cpus=[0, 1])]
    monkeypatch.setattr(placement, "current_cpu", lambda: 0)
    monkeypatch.setattr(placement, "collect_affinity", lambda: allowed)
    assert cpu_for_one_core(bandwidths, kinds) == chosen


def test_only_an_allowed_cpu_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "current_cpu", lambda: 1)
    monkeypatch.setattr(placement, "collect_affinity", lambda: [1])
    assert cpu_for_one_core({0: 200e9, 1: 100e9}) == 1


def test_without_sched_getcpu_nothing_is_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "current_cpu", lambda: None)
    assert cpu_for_one_core({0: 200e9, 1: 100e9}) is None
    with ThreadPlacement(None) as place:
        pass
    assert (place.placement.first, place.placement.last, place.placement.pinned) == (None, None, False)


def test_a_point_on_a_slow_cpu_is_flagged() -> None:
    flags = slow_cpu_flags(Placement(first=1, last=1, allowed=[1]), {0: 250e9, 1: 140e9})
    (flag,) = flags
    assert "CPU 1, ×1.79 " in flag
    assert slow_cpu_flags(Placement(first=0, last=0), {0: 250e9, 1: 140e9}) == []


def test_the_current_cpu_is_one_of_the_usable_ones() -> None:
    assert current_cpu() in EVERYWHERE
