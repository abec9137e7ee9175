"""Tests of the kernel counters and their differences."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.profiling.machine.environment.limits import Throttling
from accelbench.profiling.telemetry.totals import (
    Totals,
    difference,
    read_schedules,
    read_swapping,
    read_throttling_events,
    read_totals,
)
from tests.fixtures.machines import CGROUP_V2, XEON, build


def totals(
    waits: dict[int, float] | None = None, energy: dict[str, tuple[int, int]] | None = None, **counters: float
) -> Totals:
    return Totals(0.0, {name.replace("__", "."): value for name, value in counters.items()}, waits or {}, energy or {})


def test_other_time_is_the_difference_of_busy_and_own_time_and_never_negative() -> None:
    begin = totals(cpu__busy_s=100.0, cpu__own_s=10.0)
    assert difference(begin, totals(cpu__busy_s=107.0, cpu__own_s=14.0))["cpu.other_s"] == 3.0
    assert difference(begin, totals(cpu__busy_s=103.9, cpu__own_s=14.0))["cpu.other_s"] == 0.0


def test_threads_that_start_or_end_between_two_readings() -> None:
    begin, end = totals(waits={1: 5.0, 2: 7.0}), totals(waits={1: 5.5, 3: 0.25})
    assert difference(begin, end)["process.run_queue_wait_s"] == 0.75


def test_a_counter_without_a_first_reading_is_omitted() -> None:
    assert "cpu.steal_s" not in difference(totals(), totals(cpu__steal_s=4.0))


@settings(deadline=None)
@given(st.integers(1, 10**9), st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_wrapped_energy_counter(wrap: int, begin: int, used: int) -> None:
    begin, used = begin % wrap, used % wrap
    ends = totals(energy={"p": (begin, wrap)}), totals(energy={"p": ((begin + used) % wrap, wrap)})
    assert difference(*ends)["cpu.energy_j"] == pytest.approx(used / 1e6)


def test_counters_are_read_from_kernel_files(tmp_path: Path) -> None:
    root = build(tmp_path, XEON, CGROUP_V2, {"proc/vmstat": "pgfault 9\npswpin 3\npswpout 4"})
    begin, end = totals(), read_totals(root)
    begin = replace(begin, throttling=dict.fromkeys(end.throttling, Throttling(0, 0.0)))
    assert difference(begin, end)["cgroup.throttled_s"] == 1.5, "of the most throttled group"
    assert read_swapping(root)["memory.swapped_bytes"] == 7 * os.sysconf("SC_PAGESIZE")
    assert read_throttling_events(root) == {"cpu.thermal_throttles": 7}


def test_without_kernel_files_the_other_counters_remain(tmp_path: Path) -> None:
    read = read_totals(tmp_path)
    assert {"cpu.busy_s", "cpu.own_s", "process.major_faults"} <= read.counters.keys()
    assert not {"cgroup.throttled_s", "memory.swapped_bytes", "cpu.thermal_throttles"} & read.counters.keys()
    assert (read.waits_s, read.energy_uj) == ({}, {})


def test_an_energy_counter_that_does_not_move_is_unknown() -> None:
    begin, end = (totals(energy={"p": (500, 1000)}) for _ in range(2))
    assert "cpu.energy_j" not in difference(begin, replace(end, wall_s=2.0))


def test_threads_without_counted_time_have_no_waiting(tmp_path: Path) -> None:
    schedule = "proc/self/task/{}/schedstat"
    assert read_schedules(build(tmp_path, {schedule.format(1): "0 0 0", schedule.format(2): "0 0 0"})) == {}
    assert read_schedules(build(tmp_path, {schedule.format(2): "5000000000 0 9"})) == {1: (0.0, 0.0), 2: (5.0, 0.0)}
