"""Memory on huge pages, so that a miss of the address translation (TLB) is not taken for a miss of the cache.

Memory on small pages beside it shows what the translation costs.
"""

from __future__ import annotations

import mmap
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

HUGE_PAGE = 2 << 20
"""The bytes of a huge page of x86-64, and of Arm with pages of 4 KiB."""


def huge_empty(count: int, dtype: Any) -> Any:
    """Return an untouched array that begins at a huge page, on huge pages where the kernel grants them.

    They are also contiguous, so that no two of their parts fall into the same places of a cache before it is full.
    """
    return _advised(count, dtype, "MADV_HUGEPAGE")


def small_empty(count: int, dtype: Any) -> Any:
    """Return an untouched array that begins where a huge page would, on the system's ordinary pages alone."""
    return _advised(count, dtype, "MADV_NOHUGEPAGE")


EMPTY = {"huge": huge_empty, "small": small_empty}


def _advised(count: int, dtype: Any, advice: str) -> Any:
    """Return an untouched array of whose memory the kernel is told that (madvise(2)), where it can be told."""
    size = -(-count * np.dtype(dtype).itemsize // HUGE_PAGE) * HUGE_PAGE
    memory = mmap.mmap(-1, size + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, advice):
        with suppress(OSError):  # a kernel without huge pages knows no advice about them; the share is read anyway
            memory.madvise(getattr(mmap, advice))
    pages = np.frombuffer(memory, np.uint8)
    offset = -pages.ctypes.data % HUGE_PAGE
    return pages[offset : offset + size].view(dtype)[:count]


def huge_share(array: Any, smaps: Path = Path("/proc/self/smaps")) -> float | None:
    """Return the part of the touched memory around the array on huge pages; None where the kernel does not say."""
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
