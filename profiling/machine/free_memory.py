"""Memory limit of a benchmark's arrays: half of the available memory, so that the machine does not swap."""

from __future__ import annotations

from pathlib import Path

import psutil

from accelbench.profiling.benchmark import Skip
from accelbench.profiling.machine.environment.files import read_int, read_pairs
from accelbench.profiling.machine.environment.limits import UNLIMITED_BYTES, groups, memory_limit_of
from accelbench.profiling.text import format_bytes

SHARE = 0.5
_processes = 1


def available_bytes(root: Path = Path("/")) -> int:
    """Return the available memory in bytes: of the machine, or of the process's control groups if less."""
    granted = (_left_in_group(group) for group in groups("memory", root))
    return min(int(psutil.virtual_memory().available), *(left for left in granted if left is not None), UNLIMITED_BYTES)


def share_machine(processes: int) -> None:
    """Limit the arrays of this process to its part of memory and caches, as one of several that run together."""
    global _processes
    _processes = processes


def sharing_processes() -> int:
    """Return the number of processes that share memory and caches; 1 unless `share_machine` set another number."""
    return _processes


def require_memory(needed: float, available: int | None = None) -> None:
    """Raise Skip if arrays of `needed` bytes would take more than half of the memory available to this process."""
    available = available_bytes() // _processes if available is None else available
    if needed > SHARE * available:
        raise Skip(
            f"needs {format_bytes(needed)} of memory; half of the available {format_bytes(available)} "
            f"is {format_bytes(SHARE * available)}"
        )


def _left_in_group(group: Path) -> int | None:
    """Return the group's limit minus its usage, plus its reclaimable inactive file pages; None without a limit."""
    granted = memory_limit_of(group)
    usages = [read_int(group / name) for name in ("memory.current", "memory.usage_in_bytes")]
    used = next((usage for usage in usages if usage is not None), None)
    if granted is None or used is None:
        return None
    pages = read_pairs(group / "memory.stat")
    return max(0, granted - used + int(pages.get("total_inactive_file", pages.get("inactive_file", "0"))))
