"""Tests of CPU times: CPUs by number, and kernels that count nothing."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from accelbench.profiling.machine.cpu_times import TICKS_PER_S, CpuTimes, load_between, read_cpu_times
from accelbench.profiling.telemetry.totals import Totals, difference, read_cpu_time
from tests.fixtures.machines import build

SECOND_OFFLINE = """cpu  700 0 300 5000 0 0 0 50 0 0
cpu0 100 0 100 2000 0 0 0 50 0 0
cpu2 400 0 100 1000 0 0 0 0 0 0
cpu3 200 0 100 2000 0 0 0 0 0 0
intr 5 1 2
ctxt 7"""
NOTHING = "cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0"


def test_cpus_have_their_numbers_where_one_is_offline(tmp_path: Path) -> None:
    root = build(tmp_path, {"proc/stat": SECOND_OFFLINE})
    times = read_cpu_times(root)
    assert set(times) == {None, 0, 2, 3}
    assert times[2] == CpuTimes(500 / TICKS_PER_S, 1000 / TICKS_PER_S, 0.0)
    assert read_cpu_time([2], root)["cpu.busy_s"] == 500 / TICKS_PER_S
    assert read_cpu_time([0, 3], root)["cpu.steal_s"] == 50 / TICKS_PER_S
    assert read_cpu_time(None, root)["cpu.busy_s"] == 1000 / TICKS_PER_S
    assert read_cpu_time([1, 2], root) == {}, "the time of an offline CPU is unknown"


def test_lines_of_zeros_are_unknown(tmp_path: Path) -> None:
    root = build(tmp_path, {"proc/stat": NOTHING})
    assert read_cpu_times(root) == {}
    assert read_cpu_time(None, root) == read_cpu_time([0], root) == {}


def test_counters_that_do_not_move_are_unknown() -> None:
    counters = {"cpu.busy_s": 5.0, "cpu.all_s": 50.0, "cpu.steal_s": 0.0, "cpu.own_s": 1.0}
    begin, end = (Totals(wall_s, counters, {}, {}) for wall_s in (0.0, 2.0))
    assert difference(begin, end) == {"cpu.own_s": 0.0}
    moved = Totals(2.0, {**counters, "cpu.busy_s": 6.0, "cpu.all_s": 52.0}, {}, {})
    assert difference(begin, moved) == {"cpu.steal_s": 0.0, "cpu.own_s": 0.0, "cpu.other_s": 1.0}


def test_load_is_the_share_of_time_that_is_not_idle() -> None:
    assert load_between(CpuTimes(1.0, 9.0, 0.0), CpuTimes(2.0, 10.0, 2.0)) == pytest.approx(0.75)
    assert load_between(CpuTimes(1.0, 9.0, None), CpuTimes(1.0, 10.0, None)) == 0.0
    assert load_between(CpuTimes(1.0, 9.0, 0.0), CpuTimes(1.0, 9.0, 0.0)) is None


@pytest.mark.needs("linux")
def test_this_machines_times_are_those_of_psutil() -> None:
    before, times, after = psutil.cpu_times(), read_cpu_times()[None], psutil.cpu_times()
    assert before.idle + before.iowait <= times.idle_s <= after.idle + after.iowait
    assert before.user <= times.busy_s


def test_without_proc_stat_psutil_counts(tmp_path: Path) -> None:
    times = read_cpu_times(tmp_path)
    assert len(times) == 1 + len(psutil.cpu_times(percpu=True))
