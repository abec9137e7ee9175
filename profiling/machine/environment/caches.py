"""Caches of the logical CPUs from `/sys/devices/system/cpu/cpu*/cache` (Linux `ABI/testing/sysfs-devices-system-cpu`).

Kernels leave out files that the firmware does not supply: a cache without a level, type, size or list of CPUs is not
listed, since its size or its sharing is unknown.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from accelbench.profiling.machine.environment.files import CPUS, parse_cpu_list, read_int, read_text
from accelbench.profiling.records.environment import Cache

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class ListedCache(NamedTuple):
    """One cache, and the logical CPUs that share it."""

    level: int
    kind: str
    size_bytes: int
    shared_by: frozenset[int]


def read_caches(cpus: Path, number: int) -> list[ListedCache]:
    """Return the caches that a logical CPU uses, lowest level first; `cpus` is the folder `sys/devices/system/cpu`."""
    found = (_read(folder) for folder in sorted((cpus / f"cpu{number}/cache").glob("index[0-9]*")))
    return sorted(filter(None, found), key=lambda cache: cache.level)


def cpu_numbers(cpus: Path) -> list[int]:
    """Return the numbers of all CPUs with a folder of their own."""
    return sorted(int(folder.name[3:]) for folder in cpus.glob("cpu[0-9]*") if folder.name[3:].isdigit())


def collect_caches(online: list[int], root: Path = Path("/")) -> list[Cache]:
    """Return the caches of the first of these CPUs that lists any, lowest level first."""
    listed = (read_caches(root / CPUS, number) for number in online)
    return [
        Cache(level=level, kind=kind, size_bytes=size, shared_by=len(shared))
        for level, kind, size, shared in next(filter(None, listed), [])
    ]


def parse_size(text: str) -> int | None:
    """Parse a size such as `32K` or `8M` into bytes; None for another text."""
    found = re.fullmatch(r"(\d+)([KMG]?)", text)
    return int(found[1]) * UNITS[found[2]] if found else None


def _read(folder: Path) -> ListedCache | None:
    level, kind, size = read_int(folder / "level"), read_text(folder / "type"), read_text(folder / "size")
    shared = _sharing(folder)
    size_bytes = parse_size(size or "")
    if not level or kind not in ("Data", "Instruction", "Unified") or not size_bytes or not shared:
        return None
    return ListedCache(level, kind, size_bytes, frozenset(shared))


def _sharing(folder: Path) -> list[int]:
    """Return the CPUs of `shared_cpu_list`, or of `shared_cpu_map`, which some older kernels have instead."""
    if listed := read_text(folder / "shared_cpu_list"):
        return parse_cpu_list(listed)
    mask = (read_text(folder / "shared_cpu_map") or "").replace(",", "")
    bits = int(mask, 16) if re.fullmatch("[0-9a-fA-F]+", mask) else 0
    return [number for number in range(bits.bit_length()) if bits >> number & 1]
