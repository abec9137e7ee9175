"""Short bandwidth probe of each usable CPU, since the virtual CPUs of one machine may differ by a factor of two.

The clock does not show the difference: the cache bandwidth of a core drops while another tenant uses its second
hardware thread. The probe adds arrays that fill half of the L2 cache, which loads vector units and caches.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter_ns

from accelbench.profiling.machine.environment.cpu import collect_affinity
from accelbench.profiling.records.environment import CoreKind, Environment

DIFFERENT = 0.05
"""Relative difference in bandwidth above which a CPU counts as slower; it exceeds the noise of the probe."""
PROBE_SECONDS = 0.2
"""Time in seconds of the first measurements of all CPUs together."""
PASSES = 3
"""Measurements of each CPU, interleaved over the CPUs, so that a short disturbance does not affect all of them."""
MAX_SECONDS = 0.005
REPEATED_SECONDS = 0.01
"""Seconds of a repeated measurement of an apparently slow CPU, whose clock may still have been low."""
MAX_REPEATED_CPUS = 16
ARRAYS_BYTES = 192 << 10
"""Total bytes of the three arrays if the size of the L2 cache is unknown: larger than L1, smaller than any L2."""
ADDITIONS = 8
"""Array additions between two clock readings: some tens of microseconds."""


def with_bandwidths(environment: Environment) -> Environment:
    """Return the environment with the probed bandwidth of each usable CPU."""
    listed = [environment.cpu.caches, *(kind.caches for kind in environment.cpu.kinds)]
    sizes = [cache.size_bytes for caches in listed for cache in caches if cache.level == 2]
    bandwidths = probe_cpus(min(sizes) // 2 if sizes else ARRAYS_BYTES)
    return environment.model_copy(update={"cpu": environment.cpu.model_copy(update={"bandwidths": bandwidths})})


def slower_cpus(bandwidths: Mapping[int, float], kinds: Sequence[CoreKind] = ()) -> dict[int, float]:
    """Return the CPUs slower by more than `DIFFERENT`, each with the fastest CPU's bandwidth over its own.

    With several kinds of cores, the fastest CPU is the one of the same kind.
    """
    found: dict[int, float] = {}
    for group in _alike(bandwidths, kinds):
        fastest = max(group.values(), default=0.0)
        found |= {cpu: fastest / rate for cpu, rate in group.items() if rate < (1 - DIFFERENT) * fastest}
    return found


def format_slower_cpus(bandwidths: Mapping[int, float], kinds: Sequence[CoreKind] = ()) -> str | None:
    """Return the slower CPUs with their ratios as text, the slowest first; None if there is none."""
    slow = slower_cpus(bandwidths, kinds)
    fastest = {cpu: max(group, key=group.__getitem__) for group in _alike(bandwidths, kinds) for cpu in group}
    ordered = sorted(slow, key=slow.__getitem__, reverse=True)
    return ", ".join(f"CPU {cpu} ×{slow[cpu]:.2f} slower than CPU {fastest[cpu]}" for cpu in ordered) or None


def _alike(bandwidths: Mapping[int, float], kinds: Sequence[CoreKind]) -> list[Mapping[int, float]]:
    """Return the bandwidths of each kind of core."""
    return [{cpu: bandwidths[cpu] for cpu in kind.cpus if cpu in bandwidths} for kind in kinds] or [bandwidths]


def probe_cpus(arrays_bytes: int) -> dict[int, float]:
    """Return the bandwidth in byte/s of each usable CPU, for arrays of `arrays_bytes`; empty for a single CPU."""
    import numpy as np

    cpus = collect_affinity() or []
    if len(cpus) < 2:
        return {}
    a, b, c = (np.ones(arrays_bytes // 12, np.float32) for _ in range(3))

    def measure(cpu: int, seconds: float) -> float:
        os.sched_setaffinity(0, {cpu})
        np.add(a, b, out=c)
        best, begin = float("inf"), perf_counter_ns()
        end = begin + seconds * 1e9
        while begin < end:
            for _ in range(ADDITIONS):
                np.add(a, b, out=c)
            now = perf_counter_ns()
            best, begin = min(best, now - begin), now
        return ADDITIONS * 3 * a.nbytes / best * 1e9

    try:
        return best_rates(cpus, measure)
    finally:
        os.sched_setaffinity(0, cpus)


def best_rates(cpus: Sequence[int], measure: Callable[[int, float], float]) -> dict[int, float]:
    """Return each CPU's best rate over several calls `measure(cpu, seconds)`; apparently slow CPUs get more calls."""
    best = dict.fromkeys(cpus, 0.0)

    def update(chosen: Iterable[int], seconds: float) -> None:
        for cpu in chosen:
            best[cpu] = max(best[cpu], measure(cpu, seconds))

    for _ in range(PASSES):
        update(cpus, min(MAX_SECONDS, PROBE_SECONDS / PASSES / len(cpus)))
    for _ in range(PASSES):
        update(list(slower_cpus(best))[:MAX_REPEATED_CPUS], REPEATED_SECONDS)
    return best
