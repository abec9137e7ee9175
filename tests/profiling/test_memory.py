"""Arrays never take more than half of the memory that is really available."""

from __future__ import annotations

import psutil
import pytest

from profiling.benchmark import Skip
from profiling.memory import available_bytes, format_bytes, require_memory


def test_half_of_the_available_memory_may_be_used_and_not_a_byte_more():
    require_memory(500, available=1000)
    with pytest.raises(Skip):
        require_memory(501, available=1000)


def test_a_point_that_does_not_fit_is_skipped_with_both_figures():
    with pytest.raises(Skip, match=r"^needs 10\.4 EiB of memory; half of the available 8 GiB is 4 GiB$"):
        require_memory(3 * 4 * 1e18, available=8 << 30)


def test_a_control_group_grants_its_limit_less_what_it_cannot_reclaim(tmp_path):
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("400000\n")
    assert available_bytes(tmp_path) == 600_000
    (tmp_path / "memory.stat").write_text("anon 1\nfile 9\ninactive_file 100000\n")
    assert available_bytes(tmp_path) == 700_000
    (tmp_path / "memory.current").write_text("9000000\n")
    assert available_bytes(tmp_path) == 0


def test_the_older_control_group_interface_is_read_too(tmp_path):
    old = tmp_path / "memory"
    old.mkdir()
    (old / "memory.limit_in_bytes").write_text("500000\n")
    (old / "memory.usage_in_bytes").write_text("100000\n")
    (old / "memory.stat").write_text("inactive_file 7\ntotal_inactive_file 50000\n")
    assert available_bytes(old.parent) == 450_000


def test_without_a_limit_the_machine_decides(tmp_path):
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("400000\n")
    assert 0 < available_bytes(tmp_path) <= psutil.virtual_memory().total
    assert 0 < available_bytes(tmp_path / "absent") <= psutil.virtual_memory().total


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (6131064258, "5.71 GiB"), (2**60, "1 EiB")],
)
def test_sizes_are_written_with_three_digits(count, text):
    assert format_bytes(count) == text
