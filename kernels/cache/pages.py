"""Memory on huge pages, so that a miss of the address translation (TLB) is not taken for a miss of the cache."""

from __future__ import annotations

import mmap
import re
from pathlib import Path
from typing import Any

import numpy as np

HUGE_PAGE = 2 << 20
"""The bytes of a huge page of x86-64, and of Arm with pages of 4 KiB."""


def huge_empty(count: int, dtype: Any) -> Any:
    """Return an untouched array that begins at a huge page, on huge pages where the kernel grants them.

    They are also contiguous, so that no two of their parts fall into the same places of a cache before it is full.
    """
    size = -(-count * np.dtype(dtype).itemsize // HUGE_PAGE) * HUGE_PAGE
    memory = mmap.mmap(-1, size + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
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
