"""Memory limit of a benchmark's arrays: half of the available memory, so that the machine does not swap."""

from __future__ import annotations

from pathlib import Path

import psutil

from accelbench.profiling.benchmark import Skip
from accelbench.profiling.machine.environment.files import read_int, read_pairs
from accelbench.profiling.machine.environment.limits import MEMORY_LIMIT_FILES, UNLIMITED_BYTES, groups
from accelbench.profiling.text import format_bytes

SHARE = 0.5


def available_bytes(root: Path = Path("/")) -> int:
    """Return the bytes that can still be used: the machine's, or what the process's control groups leave if less."""
    granted = (_left_in_group(group) for group in groups("memory", root))
    return min(int(psutil.virtual_memory().available), *(left for left in granted if left is not None), UNLIMITED_BYTES)


def require_memory(needed: float, available: int | None = None) -> None:
    """Skip the point if arrays of that many bytes would take more than half of the available memory."""
    available = available_bytes() if available is None else available
    if needed > SHARE * available:
        raise Skip(
            f"needs {format_bytes(needed)} of memory; half of the available {format_bytes(available)} "
            f"is {format_bytes(SHARE * available)}"
        )


def _left_in_group(group: Path) -> int | None:
    """Return the group's limit less what is in use and cannot be reclaimed; None without a limit.

    Inactive file pages count as in use, but the kernel drops them when asked for memory.
    """
    for limit, usage in zip(MEMORY_LIMIT_FILES, ("memory.current", "memory.usage_in_bytes"), strict=True):
        granted, used = read_int(group / limit), read_int(group / usage)
        if granted is not None and granted < UNLIMITED_BYTES and used is not None:
            pages = read_pairs(group / "memory.stat")
            return max(0, granted - used + int(pages.get("total_inactive_file", pages.get("inactive_file", "0"))))
    return None
