"""Sizes of the data caches of this machine, from `/sys/devices/system/cpu` (Linux)."""

from __future__ import annotations

import math
from collections.abc import Collection
from pathlib import Path

from accelbench.profiling.machine.environment.caches import ListedCache, cpu_numbers, read_caches
from accelbench.profiling.machine.environment.cpu import collect_affinity
from accelbench.profiling.machine.environment.limits import collect_cpu_quota

CPUS = Path("/sys/devices/system/cpu")
ASSUMED = {1: 32 << 10, 2: 256 << 10, 3: 2 << 20}
"""Sizes assumed if the kernel lists none: every server and desktop CPU of the last decade has at least these.

They only determine block sizes and are never reported."""
LAST_LEVEL = 3
"""Lowest level at which the last listed cache is taken for the last one: kernels of guests and of Arm servers leave
out the caches of a whole chip, but list those of a core."""


def cache_bytes(level: int, cpus: Path = CPUS, usable: Collection[int] | None = None) -> int:
    """Return the smallest size of one data cache of a level in bytes, among the `usable` CPUs (default: the affinity).

    It is `ASSUMED` if the kernel lists none.
    """
    usable = collect_affinity() if usable is None else usable
    caches = _data_caches(cpus)
    sizes = [cache.size_bytes for cache in caches if cache.level == level and _reaches(cache, usable)]
    return min(sizes) if sizes else ASSUMED[level]


def last_level_bytes(
    cpus: Path = CPUS, usable: Collection[int] | None = None, quota: float | None = None
) -> int | None:
    """Return the bytes of the last-level caches that this process can use at a time; None if none is listed.

    Caches of the `usable` CPUs (default: the CPU affinity) count, at most one cache for each CPU of the quota. Without
    a listed cache of `LAST_LEVEL`, larger ones may be hidden. A virtual machine may list other sizes.
    """
    usable = collect_affinity() if usable is None else usable
    quota = collect_cpu_quota() if quota is None else quota
    caches = [cache for cache in _data_caches(cpus) if _reaches(cache, usable)]
    last = max((cache.level for cache in caches), default=0)
    if last < LAST_LEVEL:
        return None
    reachable = [cache.size_bytes for cache in caches if cache.level == last]
    return sum(sorted(reachable, reverse=True)[: None if quota is None else math.ceil(quota)])


def _reaches(cache: ListedCache, usable: Collection[int] | None) -> bool:
    return usable is None or not cache.shared_by.isdisjoint(usable)


def _data_caches(cpus: Path) -> set[ListedCache]:
    """Return every data cache, each once."""
    listed = (cache for number in cpu_numbers(cpus) for cache in read_caches(cpus, number))
    return {cache for cache in listed if cache.kind != "Instruction"}
