"""Sizes of the data caches of this machine, from `/sys/devices/system/cpu` (Linux)."""

from __future__ import annotations

import math
from collections.abc import Collection
from pathlib import Path

from accelbench.profiling.machine.environment.cpu import collect_affinity
from accelbench.profiling.machine.environment.files import parse_cpu_list
from accelbench.profiling.machine.environment.limits import collect_cpu_quota

CPUS = Path("/sys/devices/system/cpu")
ASSUMED = {1: 32 << 10, 2: 256 << 10, 3: 2 << 20}
"""Sizes assumed if the kernel lists none: every server and desktop CPU of the last decade has at least these.

They only determine block sizes and are never reported."""
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def cache_bytes(level: int, cpus: Path = CPUS) -> int:
    """Return the size of one data cache of a level in bytes; `ASSUMED` if the kernel lists none."""
    sizes = [size for found, _, size in _caches(cpus) if found == level]
    return min(sizes) if sizes else ASSUMED[level]


def last_level_bytes(
    cpus: Path = CPUS, usable: Collection[int] | None = None, quota: float | None = None
) -> int | None:
    """Return the bytes of the last-level caches that this process can use at a time, or None if none is listed.

    Caches of the `usable` CPUs (default: the CPU affinity) count, at most one cache for each CPU of the quota.
    A virtual machine may list other sizes.
    """
    usable = collect_affinity() if usable is None else usable
    quota = collect_cpu_quota() if quota is None else quota
    caches = _caches(cpus)
    last = max((level for level, _, _ in caches), default=0)
    reachable = [
        size
        for level, shared, size in caches
        if level == last and (usable is None or not set(usable).isdisjoint(parse_cpu_list(shared)))
    ]
    return sum(sorted(reachable, reverse=True)[: None if quota is None else math.ceil(quota)]) or None


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
            continue  # some kernels leave files out; a cache without a size counts as not listed
        if kind != "Instruction" and size[:-1].isdigit() and size[-1] in UNITS:
            found.add((int(level), shared, int(size[:-1]) * UNITS[size[-1]]))
    return found
