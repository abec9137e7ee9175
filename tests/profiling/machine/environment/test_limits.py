"""Tests of the limits of control groups, version 1 and 2."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from accelbench.profiling.machine.environment.limits import (
    Throttling,
    collect_limits,
    collect_throttling,
    parse_cpu_max,
    throttled_between,
)
from accelbench.profiling.machine.free_memory import available_bytes
from tests.fixtures.machines import CGROUP_V1, CGROUP_V2, build

UNTIMED = settings(deadline=None)  # the machine may be busy


def test_the_lowest_quota_of_version_2_applies(tmp_path: Path) -> None:
    root = build(tmp_path, CGROUP_V2)
    limits = collect_limits(root)
    assert (limits.cpu_quota, limits.memory_bytes) == (1.5, 8 << 30)
    own, above = collect_throttling(root).values()
    assert own == Throttling(periods=2, seconds=0.5)
    assert above == Throttling(periods=40, seconds=1.5)


def test_a_soft_memory_limit_and_a_mount_point_with_spaces(tmp_path: Path) -> None:
    place = "sys/fs/my cg"
    files = {
        "proc/self/mountinfo": r"30 24 0:26 / /sys/fs/my\040cg rw - cgroup2 cgroup2 rw",
        "proc/self/cgroup": "0::/job",
        f"{place}/job/cpu.max": "50000 100000",
        f"{place}/job/memory.max": "max",
        f"{place}/job/memory.high": "536870912",
        f"{place}/job/memory.current": "36870912",
    }
    root = build(tmp_path, files)
    limits = collect_limits(root)
    assert (limits.cpu_quota, limits.memory_bytes) == (0.5, 512 << 20)
    assert available_bytes(root) == 500_000_000


def test_version_1_in_a_container_is_read_from_the_visible_top(tmp_path: Path) -> None:
    root = build(tmp_path, CGROUP_V1)
    limits = collect_limits(root)
    assert limits.cpu_quota == 0.5  # the quota of version 1, not of the unified hierarchy
    assert limits.memory_bytes is None  # version 1's value for no limit
    assert list(collect_throttling(root).values()) == [Throttling(periods=3, seconds=1.2)]


def test_a_group_outside_the_visible_ones_falls_back_to_the_top(tmp_path: Path) -> None:
    elsewhere = {"proc/self/cgroup": "0::/../../elsewhere", "sys/fs/cgroup/cpu.max": "200000 100000"}
    assert collect_limits(build(tmp_path, CGROUP_V2, elsewhere)).cpu_quota == 2.0


def test_without_groups_there_is_no_limit(tmp_path: Path) -> None:
    limits = collect_limits(tmp_path)
    assert (limits.cpu_quota, limits.memory_bytes) == (None, None)
    assert collect_throttling(tmp_path) == {}
    assert throttled_between({}, {}) is None


def test_of_nested_groups_the_most_throttled_one_counts() -> None:
    """The group above was throttled for 40 s before the first snapshot and for 0.1 s afterwards."""
    own, above = Path("job"), Path("slice")
    begin = {own: Throttling(2, 0.5), above: Throttling(400, 40.0)}
    end = {own: Throttling(32, 3.5), above: Throttling(401, 40.1)}
    assert throttled_between(begin, end) == Throttling(30, 3.0)
    assert throttled_between({}, end) is None, "a group that is new in the second snapshot has no difference"


@UNTIMED
@given(st.integers(1_000, 10**9), st.integers(1_000, 1_000_000))
def test_a_cpu_max_is_its_quota_over_its_period(quota: int, period: int) -> None:
    assert parse_cpu_max(f"{quota} {period}") == quota / period
    assert parse_cpu_max(f"{quota}\n") == quota / 100_000
    assert parse_cpu_max(f"max {period}") is None
