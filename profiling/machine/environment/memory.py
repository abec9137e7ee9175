"""Main memory facts."""

from __future__ import annotations

import re
from pathlib import Path

import psutil

from accelbench.profiling.machine.environment.files import read_pairs, read_text
from accelbench.profiling.records.environment import Memory


def collect_memory(root: Path = Path("/")) -> Memory:
    """Return sizes in bytes from `/proc/meminfo`, or from psutil without this file."""
    sizes = collect_meminfo(root)
    if "MemTotal" not in sizes:
        memory = psutil.virtual_memory()
        sizes = {"MemTotal": memory.total, "MemAvailable": memory.available}
    return Memory(
        total_bytes=sizes["MemTotal"],
        available_bytes=sizes.get("MemAvailable", sizes.get("MemFree", 0)),
        swap_bytes=sizes.get("SwapTotal"),
        channels=count_channels(root),
        huge_pages=collect_huge_pages(root),
    )


def collect_meminfo(root: Path = Path("/")) -> dict[str, int]:
    """Return the entries of `/proc/meminfo` in kB, converted to bytes."""
    pairs = read_pairs(root / "proc/meminfo", ":")
    return {name: int(value[:-3]) * 1024 for name, value in pairs.items() if value.endswith(" kB")}


def count_channels(root: Path) -> int | None:
    """Return the number of memory channels with a module; None without an EDAC driver.

    Source: Linux `Documentation/admin-guide/ras.rst`: `dimm_location` is such as `channel 1 slot 0`, or
    `csrow 0 channel 1`, where a chip-select row is not a channel of its own.
    """
    found = set()
    for path in (root / "sys/devices/system/edac/mc").glob("mc[0-9]*/*/dimm_location"):
        location = re.search(r"(branch \d+ )?channel \d+", read_text(path) or "")
        if location:
            found.add((path.parts[-3], location[0]))
    return len(found) or None


def collect_huge_pages(root: Path = Path("/")) -> str | None:
    """Return the current transparent huge page mode: the bracketed one in `always [madvise] never`."""
    mode = re.search(r"\[(\w+)\]", read_text(root / "sys/kernel/mm/transparent_hugepage/enabled") or "")
    return mode[1] if mode else None
