"""Short bandwidth probe of each usable CPU, since the virtual CPUs of one machine may differ by half.

The clock does not show it: what differs is how fast a core gets at its caches, where another tenant works on its other
hardware thread. The probe adds arrays that fill half of the L2 cache, which takes vector units, caches and clock alike.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter_ns

from accelbench.profiling.machine.environment.cpu import collect_affinity
from accelbench.profiling.records.environment import Environment

DIFFERENT = 0.05
"""The relative difference in bandwidth from which a CPU is named as slower: more than the probe itself varies by."""
PROBE_SECONDS = 0.2
"""The time for the first looks at all CPUs together."""
PASSES = 3
"""The looks at each CPU, between which it sees all others: what disturbs one for a moment does not disturb all."""
LONGEST_LOOK = 0.005
SECOND_LOOK = 0.01
"""The seconds of another look at a CPU that seemed slow: its clock may not have risen yet."""
MOST_SECOND_LOOKS = 16
ARRAYS_BYTES = 192 << 10
"""The bytes of the three arrays where the size of the L2 cache is not known: beyond L1, and within every L2."""
ADDITIONS = 8
"""The additions between two readings of the clock: some tens of microseconds."""


def probed(environment: Environment) -> Environment:
    """Return the environment with the bandwidth of each CPU that this process may use, by the probe."""
    sizes = [cache.size_bytes for cache in environment.cpu.caches if cache.level == 2]
    bandwidths = probe_cpus(sizes[0] // 2 if sizes else ARRAYS_BYTES)
    return environment.model_copy(update={"cpu": environment.cpu.model_copy(update={"bandwidths": bandwidths})})


def slower_cpus(bandwidths: Mapping[int, float]) -> dict[int, float]:
    """Return the CPUs that are slower by more than `DIFFERENT`, each with the ratio by which the fastest exceeds it."""
    fastest = max(bandwidths.values(), default=0.0)
    return {cpu: fastest / rate for cpu, rate in bandwidths.items() if rate < (1 - DIFFERENT) * fastest}


def slower_in_words(bandwidths: Mapping[int, float]) -> str | None:
    """Return which CPUs are slower and by how much, the slowest first; None where all are alike."""
    slow = slower_cpus(bandwidths)
    ordered = sorted(slow, key=slow.__getitem__, reverse=True)
    fastest = max(bandwidths, key=bandwidths.__getitem__, default=None)
    return ", ".join(f"CPU {cpu} ×{slow[cpu]:.2f} slower than CPU {fastest}" for cpu in ordered) or None


def probe_cpus(arrays_bytes: int) -> dict[int, float]:
    """Return the bytes per second that each usable CPU adds arrays of so many bytes with; empty for a single CPU."""
    import numpy as np

    cpus = collect_affinity() or []
    if len(cpus) < 2:
        return {}
    a, b, c = (np.ones(arrays_bytes // 12, np.float32) for _ in range(3))

    def look(cpu: int, seconds: float) -> float:
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
        return best_looks(cpus, look)
    finally:
        os.sched_setaffinity(0, cpus)


def best_looks(cpus: Sequence[int], look: Callable[[int, float], float]) -> dict[int, float]:
    """Return each CPU's best rate over several looks, `look(cpu, seconds)`; those that seem slow get further ones."""
    best = dict.fromkeys(cpus, 0.0)

    def look_at(chosen: Iterable[int], seconds: float) -> None:
        for cpu in chosen:
            best[cpu] = max(best[cpu], look(cpu, seconds))

    for _ in range(PASSES):
        look_at(cpus, min(LONGEST_LOOK, PROBE_SECONDS / PASSES / len(cpus)))
    for _ in range(PASSES):
        look_at(list(slower_cpus(best))[:MOST_SECOND_LOOKS], SECOND_LOOK)
    return best
