"""Allocation of memory on a chosen node: by mbind(2), or by a first touch from a CPU of the node."""

from __future__ import annotations

import ctypes
import mmap
import platform
import re
from pathlib import Path
from typing import Any

from accelbench.kernels.lib.cpu.pinned import PinnedThreads
from accelbench.kernels.lib.cpu.topology import Route
from accelbench.profiling.benchmark import Skip

MBIND = {"x86_64": 237, "aarch64": 235, "ppc64le": 259}
"""Number of the system call, which the C library does not wrap (Linux, syscall tables)."""
MPOL_BIND = 2
"""Policy that allocates memory on the given nodes only (linux/mempolicy.h)."""
BITS = 8 * ctypes.sizeof(ctypes.c_ulong)
NUMA_MAPS = Path("/proc/self/numa_maps")


def fill_on_node(array: Any, value: float, route: Route) -> None:
    """Fill an untouched array so that its pages are on the route's node; Skip if that is impossible.

    The array must have its own memory mapping, as returned by `huge_pages.huge_empty`. If mbind is forbidden, as in
    some containers, a thread on that node touches the memory first: by default the kernel then allocates it there.
    """
    if bind(array, route.to):
        array.fill(value)
    elif route.cpus_there:
        with PinnedThreads(route.cpus_there[:1]) as threads:
            threads.run(lambda _: array.fill(value))
    else:
        raise Skip(f"cannot allocate memory on node {route.to}: mbind is denied, and no CPU of the node is available")


def bind(array: Any, node: int) -> bool:
    """Bind the array's pages to a node by mbind(2), and return whether the kernel accepted it."""
    number = MBIND.get(platform.machine())
    if number is None:
        return False
    begin = array.ctypes.data // mmap.PAGESIZE * mmap.PAGESIZE
    length = array.ctypes.data + array.nbytes - begin
    mask = (ctypes.c_ulong * (node // BITS + 1))()
    mask[node // BITS] = 1 << node % BITS
    # The kernel uses one bit less than this argument.
    arguments = (begin, length, MPOL_BIND, ctypes.addressof(mask), len(mask) * BITS + 1, 0)
    failed: int = ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *map(ctypes.c_ulong, arguments))
    return failed == 0


def share_on_node(array: Any, node: int, numa_maps: Path = NUMA_MAPS) -> float | None:
    """Return the share of the array's touched pages on the node; None if the kernel does not report it."""
    try:
        lines = numa_maps.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    # A line contains the start of a mapping; its end is at most the start of the next one.
    mappings = sorted((int(line.split()[0], 16), line) for line in lines)
    below = [line for begin, line in mappings if begin <= array.ctypes.data]
    pages = {int(number): int(count) for number, count in re.findall(r" N(\d+)=(\d+)", below[-1])} if below else {}
    return pages.get(node, 0) / sum(pages.values()) if pages else None
