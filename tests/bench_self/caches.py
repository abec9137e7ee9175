"""`cache-bandwidth` compared with likwid-bench's loads, stores and copies of the widest vectors, by level on one CPU.

Both are pinned to the same CPU, since the CPUs of a virtual machine differ: one CPU had half the L2 rate of another.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Collection

from rich.console import Console

from accelbench.kernels.lib.cpu.caches import cache_bytes
from accelbench.profiling.machine.environment.cpu import collect_cpu
from accelbench.profiling.machine.placement import on_cpus
from tests.bench_self.bounds import ROUNDS, Bound, rates
from tests.bench_self.likwid import likwid

OPERATIONS = {"read": "load", "write": "store", "copy": "copy"}
"""Our operations, and the prefix of likwid-bench's corresponding kernels."""
MOVED = 16 << 30
"""Bytes moved in one measurement of likwid-bench: a third of a second from L2."""


def suffix(isa: Collection[str]) -> str | None:
    """Return the suffix of likwid-bench's kernels for the widest vectors; None if it has none."""
    known = {"avx512f": "_avx512", "avx": "_avx", "sse4_2": "_sse", "sve": "_sve256", "asimd": "_neon"}
    return next((end for name, end in known.items() if name in isa), None)


def sizes() -> dict[str, int]:
    """Return the working set of each level in KiB: half of L1 and of L2, a quarter of L3, four times L3 for memory."""
    l1, l2, l3 = (cache_bytes(level) >> 10 for level in (1, 2, 3))
    return {"L1": l1 // 2, "L2": l2 // 2, "L3": l3 // 4, "memory": 4 * l3}


def against_likwid_by_level(console: Console) -> list[Bound]:
    """Compare reading, writing and copying at each cache level with likwid-bench, alternately."""
    end = suffix(collect_cpu().isa)
    listed = (
        shutil.which("likwid-bench")
        and subprocess.run(["likwid-bench", "-a"], capture_output=True, text=True, check=True).stdout
    )
    if not listed or end is None or f"load{end} " not in listed:
        console.print(f"likwid-bench is not installed or has no kernel load{end or ''}: caches are not compared")
        return []
    bounds = {
        (op, level): Bound(f"{op} {level}, {kib} KiB ÷ likwid {theirs}{end}", "×", 0.95)
        for op, theirs in OPERATIONS.items()
        for level, kib in sizes().items()
    }
    cpu = max(os.sched_getaffinity(0))
    for number in range(ROUNDS):
        console.print(f"repetition {number + 1} of {ROUNDS}: caches on CPU {cpu}")
        for level, kib in sizes().items():
            parameters = ("op=read,write,copy", "cores=one", f"kib={kib}")
            options = [word for parameter in parameters for word in ("--param", parameter)]
            with on_cpus({cpu}):
                ours = rates("cache-bandwidth", *options, "--max-seconds", "1")
                for op, theirs in OPERATIONS.items():
                    times = max(1, MOVED // (kib << 10))
                    rate = likwid(f"{theirs}{end}", f"N:{kib * 1.024:.0f}kB:1", "-i", str(times))
                    # The point's name lacks the default operation.
                    mine = ours[f"cache-bandwidth one {kib}" + ("" if op == "read" else f" {op}")]
                    bounds[op, level].found.append(mine / rate)
    return list(bounds.values())
