"""NUMA nodes of this machine, from `/sys/devices/system/node` (Linux)."""

from __future__ import annotations

import re
from collections.abc import Iterable
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
    """Logical CPUs of the node; none for a node of memory only, such as a GPU or CXL."""
    memory_bytes: int
    """Memory of the node; 0 if its slots are empty."""
    distances: tuple[int, ...]
    """Distances to the nodes in the order of their numbers, by the firmware; 10 is local."""


@dataclass(frozen=True)
class Route:
    """The CPUs that access memory, and the node of the memory."""

    cpus: tuple[int, ...]
    """One available logical CPU of each core of the accessing node."""
    to: int
    """Number of the memory's node."""
    cpus_there: tuple[int, ...]
    """Available CPUs of the memory's node."""
    distance: int | None
    """Distance by the firmware, 10 for local memory; None if unknown."""


def read_nodes(root: Path = ROOT) -> dict[int, Node]:
    """Return the online nodes by their numbers; empty if the kernel lists none."""
    folder = root / NODES
    return {number: _node(folder / f"node{number}") for number in parse_cpu_list(read_text(folder / "online") or "")}


def _node(folder: Path) -> Node:
    memory = re.search(r"MemTotal:\s+(\d+) kB", read_text(folder / "meminfo") or "")
    return Node(
        cpus=tuple(parse_cpu_list(read_text(folder / "cpulist") or "")),
        memory_bytes=int(memory[1]) * 1024 if memory else 0,
        distances=tuple(map(int, (read_text(folder / "distance") or "").split())),
    )


def route_from_device(end: int, root: Path = ROOT) -> Route:
    """Return the route of a device, which no CPU takes part in, to a node's memory; Skip if there is none."""
    node = _existing_nodes((end,), root)[end]
    _require_memory_on(end, node)
    return Route((), end, tuple(sorted(set(collect_affinity() or []) & set(node.cpus))), None)


def route(start: int, end: int, root: Path = ROOT) -> Route:
    """Return the route from one node's CPUs to another node's memory; Skip with the reason if there is none."""
    nodes, allowed = _existing_nodes((start, end), root), set(collect_affinity() or [])
    cpus = one_thread_per_core(allowed & set(nodes[start].cpus), root)
    if not cpus:
        raise Skip(f"memory node {start} has no CPU that this process may use")
    _require_memory_on(end, nodes[end])
    distances = dict(zip(sorted(nodes), nodes[start].distances, strict=False))
    there = tuple(sorted(allowed & set(nodes[end].cpus)))
    return Route(tuple(cpus), end, there, distances.get(end))


def _existing_nodes(needed: Iterable[int], root: Path) -> dict[int, Node]:
    """Return all nodes by their numbers; Skip if one of the needed nodes does not exist."""
    nodes = read_nodes(root)
    if not nodes:
        raise Skip("the kernel lists no memory nodes")
    for number in needed:
        if number not in nodes:
            several = "node" if len(nodes) == 1 else "nodes"
            raise Skip(f"there is no memory node {number}: this machine has {several} {format_cpu_list(sorted(nodes))}")
    return nodes


def _require_memory_on(number: int, node: Node) -> None:
    if not node.memory_bytes:
        raise Skip(f"memory node {number} has no memory")
