"""The memory nodes of this machine, as the kernel lists them (`/sys/devices/system/node`, Linux)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from accelbench.profiling.benchmark import Skip
from accelbench.profiling.machine.environment.cpu import collect_affinity, one_thread_per_core
from accelbench.profiling.machine.environment.files import format_cpu_list, parse_cpu_list, read_text

NODES = "sys/devices/system/node"
ROOT = Path("/")


@dataclass(frozen=True)
class Node:
    """One memory node."""

    cpus: tuple[int, ...]
    """The logical CPUs of the node; none where it is memory alone, as that of a GPU or of CXL is."""
    memory_bytes: int
    """The memory of the node; 0 where its slots are empty."""
    distances: tuple[int, ...]
    """How far each node's memory is by the firmware, in the order of their numbers: 10 is its own."""


@dataclass(frozen=True)
class Route:
    """Which CPUs work, and on which node's memory."""

    cpus: tuple[int, ...]
    """One logical CPU of each core of the node that works, of those this process may use."""
    to: int
    """The number of the node whose memory is used."""
    cpus_there: tuple[int, ...]
    """The CPUs beside that memory which this process may use."""
    distance: int | None
    """How far the memory is by the firmware, 10 being a node's own; None where it does not say."""


def read_nodes(root: Path = ROOT) -> dict[int, Node]:
    """Return the nodes that are switched on, by their numbers; none where the kernel does not list them."""
    folder = root / NODES
    return {number: _node(folder / f"node{number}") for number in parse_cpu_list(read_text(folder / "online") or "")}


def _node(folder: Path) -> Node:
    memory = re.search(r"MemTotal:\s+(\d+) kB", read_text(folder / "meminfo") or "")
    return Node(
        cpus=tuple(parse_cpu_list(read_text(folder / "cpulist") or "")),
        memory_bytes=int(memory[1]) * 1024 if memory else 0,
        distances=tuple(map(int, (read_text(folder / "distance") or "").split())),
    )


def route(start: int, end: int, root: Path = ROOT) -> Route:
    """Return the route from one node's CPUs to another's memory; Skip, with the reason, where there is none."""
    nodes, allowed = read_nodes(root), set(collect_affinity() or [])
    if not nodes:
        raise Skip("the kernel lists no memory nodes")
    for number in (start, end):
        if number not in nodes:
            several = "node" if len(nodes) == 1 else "nodes"
            raise Skip(f"there is no memory node {number}: this machine has {several} {format_cpu_list(sorted(nodes))}")
    cpus = one_thread_per_core(allowed & set(nodes[start].cpus), root)
    if not cpus:
        raise Skip(f"memory node {start} has no CPU that this process may use")
    if not nodes[end].memory_bytes:
        raise Skip(f"memory node {end} has no memory")
    distances = dict(zip(sorted(nodes), nodes[start].distances, strict=False))
    there = tuple(sorted(allowed & set(nodes[end].cpus)))
    return Route(tuple(cpus), end, there, distances.get(end))
