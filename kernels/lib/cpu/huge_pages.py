"""Memory on huge pages, to measure cache misses without TLB misses, or on small pages, to measure both."""

from __future__ import annotations

import mmap
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

HUGE_PAGE = 2 << 20
"""Bytes of a huge page of x86-64, and of Arm with pages of 4 KiB."""


def huge_empty(count: int, dtype: Any) -> Any:
    """Return an untouched array aligned to a huge page, on huge pages if the kernel grants them.

    Huge pages are physically contiguous, so that no parts of the array conflict in a cache before it is full.
    """
    return _advised(count, dtype, "MADV_HUGEPAGE")


def small_empty(count: int, dtype: Any) -> Any:
    """Return an untouched array with the same alignment, on ordinary pages only."""
    return _advised(count, dtype, "MADV_NOHUGEPAGE")


EMPTY = {"huge": huge_empty, "small": small_empty}


def _advised(count: int, dtype: Any, advice: str) -> Any:
    """Return an untouched array with this advice for its memory (madvise(2)), if the system supports it."""
    size = -(-count * np.dtype(dtype).itemsize // HUGE_PAGE) * HUGE_PAGE
    memory = mmap.mmap(-1, size + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, advice):
        with suppress(OSError):  # a kernel without huge pages rejects the advice; the actual share is read later
            memory.madvise(getattr(mmap, advice))
    pages = np.frombuffer(memory, np.uint8)
    offset = -pages.ctypes.data % HUGE_PAGE
    return pages[offset : offset + size].view(dtype)[:count]


def huge_share(array: Any, smaps: Path = Path("/proc/self/smaps")) -> float | None:
    """Return the share of the array's resident mapping on huge pages; None if the kernel does not report it."""
    try:
        lines = smaps.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    address, inside = array.ctypes.data, False
    sizes: dict[str, int] = {}
    for line in lines:
        if bounds := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(bounds[1], 16) <= address < int(bounds[2], 16)
        elif inside and (size := re.match(r"(\w+): +(\d+) kB", line)):
            sizes[size[1]] = int(size[2])
    return sizes["AnonHugePages"] / sizes["Rss"] if sizes.get("Rss") and "AnonHugePages" in sizes else None
