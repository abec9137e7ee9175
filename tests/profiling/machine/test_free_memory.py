"""Tests of the memory limit: half of the available memory."""

from __future__ import annotations

import psutil
import pytest

from accelbench.profiling.benchmark import Skip
from accelbench.profiling.machine.free_memory import available_bytes, require_memory
from accelbench.profiling.text import format_bytes


def test_at_most_half_of_the_available_memory_may_be_used():
    require_memory(500, available=1000)
    with pytest.raises(Skip):
        require_memory(501, available=1000)


def test_a_point_that_does_not_fit_is_skipped_with_the_sizes():
    with pytest.raises(Skip, match=r"10\.4 EiB .* 8 GiB .* 4 GiB"):
        require_memory(3 * 4 * 1e18, available=8 << 30)


def control_group(root, below="", version=2):
    """Create a cgroup mount and this process's group in a fake root; return the group's folder."""
    mount, kind = ("memory", "cgroup rw,memory") if version == 1 else ("", "cgroup2 rw")
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text(f"35 25 0:30 / /sys/fs/cgroup/{mount} rw - {kind.split()[0]} {kind}\n")
    (root / "proc/self/cgroup").write_text(f"5:memory:/{below}\n" if version == 1 else f"0::/{below}\n")
    group = root / "sys/fs/cgroup" / mount / below
    group.mkdir(parents=True)
    return group


def test_a_control_groups_available_memory_is_its_limit_minus_unreclaimable_usage(tmp_path):
    group = control_group(tmp_path)
    (group / "memory.max").write_text("1000000\n")
    (group / "memory.current").write_text("400000\n")
    assert available_bytes(tmp_path) == 600_000
    (group / "memory.stat").write_text("anon 1\nfile 9\ninactive_file 100000\n")
    assert available_bytes(tmp_path) == 700_000
    (group / "memory.current").write_text("9000000\n")
    assert available_bytes(tmp_path) == 0


def test_cgroup_version_1_is_supported(tmp_path):
    old = control_group(tmp_path, version=1)
    (old / "memory.limit_in_bytes").write_text("500000\n")
    (old / "memory.usage_in_bytes").write_text("100000\n")
    (old / "memory.stat").write_text("inactive_file 7\ntotal_inactive_file 50000\n")
    assert available_bytes(tmp_path) == 450_000


def test_the_lowest_limit_of_nested_groups_applies(tmp_path):
    """Slurm without a container creates nested groups below a top group without a limit."""
    job = control_group(tmp_path, "slurm/job_7/step_0")
    (job / "memory.max").write_text("800000\n")
    (job / "memory.current").write_text("100000\n")
    assert available_bytes(tmp_path) == 700_000
    (job.parent / "memory.max").write_text("500000\n")
    (job.parent / "memory.current").write_text("100000\n")
    assert available_bytes(tmp_path) == 400_000


def test_without_a_limit_the_machines_memory_counts(tmp_path):
    group = control_group(tmp_path)
    (group / "memory.max").write_text("max\n")
    (group / "memory.current").write_text("400000\n")
    assert 0 < available_bytes(tmp_path) <= psutil.virtual_memory().total
    assert 0 < available_bytes(tmp_path / "absent") <= psutil.virtual_memory().total


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (6131064258, "5.71 GiB"), (2**60, "1 EiB")],
)
def test_sizes_are_formatted_with_three_digits(count, text):
    assert format_bytes(count) == text
