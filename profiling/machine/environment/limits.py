"""Limits of this process's control groups (version 1 and 2), and the throttling by their CPU quotas.

Sources: Linux `Documentation/admin-guide/cgroup-v2.rst`, `…/cgroup-v1/memory.rst` and `scheduler/sched-bwc.rst`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from accelbench.profiling.machine.environment.files import read_int, read_pairs, read_text
from accelbench.profiling.records.environment import Limits

# Version 1 writes "no limit" as the largest page-aligned count, 2⁶³ less a page; no machine has an exbibyte.
UNLIMITED_BYTES = 1 << 60


class Mount(NamedTuple):
    """A mounted cgroup hierarchy: its visible part (`root`) and its mount point (`path`)."""

    version: int
    controllers: frozenset[str]
    root: str
    path: Path


class Throttling(NamedTuple):
    """Number of periods in which a group's quota ran out, and the throttled seconds, summed over the CPUs."""

    periods: int
    seconds: float


def collect_limits(root: Path = Path("/")) -> Limits:
    """Return the lowest CPU quota and memory limit from the process's own group up to the top."""
    return Limits(cpu_quota=collect_cpu_quota(root), memory_bytes=collect_memory_limit(root))


def collect_cpu_quota(root: Path = Path("/")) -> float | None:
    """Return the CPU quota in CPUs; None without a quota."""
    quotas = [_group_quota(group) for group in groups("cpu", root)]
    return min((quota for quota in quotas if quota is not None), default=None)


def collect_memory_limit(root: Path = Path("/")) -> int | None:
    """Return the memory limit in bytes; None without a limit."""
    limits = [limit for group in groups("memory", root) if (limit := memory_limit_of(group)) is not None]
    return min(limits, default=None)


def memory_limit_of(group: Path) -> int | None:
    """Return the memory limit of a control group in bytes; None without a limit."""
    limits = [read_int(group / name) for name in MEMORY_LIMIT_FILES]
    outer = read_pairs(group / "memory.stat").get(OUTER_LIMIT, "")
    limits += [int(outer)] if outer.isdigit() else []
    return min((limit for limit in limits if limit is not None and limit < UNLIMITED_BYTES), default=None)


MEMORY_LIMIT_FILES = ("memory.max", "memory.high", "memory.limit_in_bytes")
"""Files of version 2 (`max`, no number, for none) and of version 1.

Beyond `memory.high` the kernel slows a group down and reclaims its memory."""
OUTER_LIMIT = "hierarchical_memory_limit"
"""Entry of version 1's `memory.stat`: the lowest limit of the group and the groups above, visible or not."""


def collect_throttling(root: Path = Path("/")) -> dict[Path, Throttling]:
    """Return the throttling so far of this process's group and of each group above that counts it."""
    found = {}
    for group in groups("cpu", root):
        pairs = read_pairs(group / "cpu.stat")
        if "nr_throttled" in pairs:
            in_v2 = "throttled_usec" in pairs
            seconds = int(pairs["throttled_usec"]) / 1e6 if in_v2 else int(pairs.get("throttled_time", 0)) / 1e9
            found[group] = Throttling(int(pairs["nr_throttled"]), seconds)
    return found


def throttled_between(begin: Mapping[Path, Throttling], end: Mapping[Path, Throttling]) -> Throttling | None:
    """Return the difference for the group that was throttled the most; None if no group counts throttling.

    Nested groups may be throttled at the same time, so their seconds must not be added.
    """
    between = [
        Throttling(after.periods - begin[group].periods, after.seconds - begin[group].seconds)
        for group, after in end.items()
        if group in begin
    ]
    return max(between, key=attrgetter("seconds", "periods"), default=None)


def _group_quota(group: Path) -> float | None:
    text = read_text(group / "cpu.max")
    if text is not None:
        return parse_cpu_max(text)
    quota, period = read_int(group / "cpu.cfs_quota_us"), read_int(group / "cpu.cfs_period_us")
    return quota / period if quota is not None and quota > 0 and period else None


def parse_cpu_max(text: str) -> float | None:
    """Parse a line of `cpu.max`, `QUOTA PERIOD` in microseconds, into CPUs; None for `max`."""
    quota, *period = text.split()
    if quota == "max":
        return None
    return int(quota) / (int(period[0]) if period else 100_000)


def groups(controller: str, root: Path = Path("/")) -> list[Path]:
    """Return the folders of this process's groups for a controller, its own first, up to the visible top."""
    mounts, membership = _mounts_of(controller, root), _membership(root)
    if not mounts:
        return []
    path = PurePosixPath(membership.get(controller if mounts[0].version == 1 else "", "/"))
    # Without a cgroup namespace, a container's mount starts at its own group, but the path starts at the host's root.
    # Other groups may be mounted, too: the mount that shows most of the groups above counts.
    showing = [mount for mount in mounts if path.is_relative_to(mount.root)]
    mount = min(showing, key=lambda mount: len(mount.root), default=mounts[0])
    own = mount.path / (path.relative_to(mount.root) if showing else "")
    if ".." in own.parts or not own.is_dir():
        own = mount.path
    levels = len(own.relative_to(mount.path).parts)
    return [own, *own.parents[:levels]] if levels else [own]


def _mounts_of(controller: str, root: Path) -> list[Mount]:
    """Return version 1's mounts of the controller if there are any (hybrid machines have both), else version 2's."""
    mounts = _mounts(root)
    first = [mount for mount in mounts if controller in mount.controllers]
    return first or [mount for mount in mounts if mount.version == 2]


def _mounts(root: Path) -> list[Mount]:
    """Parse the cgroup lines of `/proc/self/mountinfo`: `id parent dev ROOT PATH options … - TYPE source OPTIONS`."""
    found = []
    for line in (read_text(root / "proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) > 4 and kind and kind[0] in ("cgroup", "cgroup2"):
            version = 2 if kind[0] == "cgroup2" else 1
            controllers = frozenset(kind[-1].split(",")) if version == 1 else frozenset[str]()
            visible, place = map(_unescape, fields[3:5])
            found.append(Mount(version, controllers, visible, root / place.lstrip("/")))
    return found


def _unescape(path: str) -> str:
    """Return a path of mountinfo with its spaces, tabs, line ends and backslashes, which are octal there (`\\040`)."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)


def _membership(root: Path) -> dict[str, str]:
    """Return the process's group by controller from `/proc/self/cgroup`; the key of version 2 is empty."""
    paths: dict[str, str] = {}
    for line in (read_text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        paths |= dict.fromkeys(controllers.split(","), path)
    return paths
