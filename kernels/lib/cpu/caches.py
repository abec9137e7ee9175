"""Sizes of the data caches of this machine, from `/sys/devices/system/cpu` (Linux)."""

from __future__ import annotations

from pathlib import Path

CPUS = Path("/sys/devices/system/cpu")
ASSUMED = {1: 32 << 10, 2: 256 << 10, 3: 2 << 20}
"""Sizes assumed if the kernel lists none: every server and desktop CPU of the last decade has at least these.

They only determine block sizes and are never reported."""
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def cache_bytes(level: int, cpus: Path = CPUS) -> int:
    """Return the size of one data cache of a level in bytes; `ASSUMED` if the kernel lists none."""
    sizes = [size for found, _, size in _caches(cpus) if found == level]
    return min(sizes) if sizes else ASSUMED[level]


def last_level_bytes(cpus: Path = CPUS) -> int | None:
    """Return the bytes of all last-level caches, or None if none is listed. A virtual machine may list other sizes."""
    caches = _caches(cpus)
    last = max((level for level, _, _ in caches), default=0)
    return sum(size for level, _, size in caches if level == last) or None


def _caches(cpus: Path) -> set[tuple[int, str, int]]:
    """Return (level, CPUs that share it, bytes) of every data cache, each once."""
    found = set()
    for index in cpus.glob("cpu[0-9]*/cache/index[0-9]*"):
        try:
            kind, level, shared, size = (
                (index / name).read_text(encoding="ascii").strip()
                for name in ("type", "level", "shared_cpu_list", "size")
            )
        except OSError:
            continue  # not every kernel fills every file; a cache without a size is one that is not listed
        if kind != "Instruction" and size[:-1].isdigit() and size[-1] in UNITS:
            found.add((int(level), shared, int(size[:-1]) * UNITS[size[-1]]))
    return found
