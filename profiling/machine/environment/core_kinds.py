"""Kinds of cores of a CPU whose cores differ: Arm's big.LITTLE, Intel's hybrid and AMD's dense cores.

Sources: Linux `Documentation/arch/arm64/cpu-feature-registers.rst`, `ABI/testing/sysfs-devices-system-cpu`
(`cpu_capacity`, `cpufreq`), `ABI/testing/sysfs-bus-event_source-devices` (`/sys/devices/cpu_core`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Sequence
from itertools import pairwise
from pathlib import Path

from accelbench.profiling.machine.environment.arm import IMPLEMENTERS, core_name
from accelbench.profiling.machine.environment.caches import collect_caches
from accelbench.profiling.machine.environment.cpuinfo import arm_number, processor_name, read_processors
from accelbench.profiling.machine.environment.files import CPUS, parse_cpu_list, read_int, read_text
from accelbench.profiling.records.environment import Cache, CoreKind
from accelbench.profiling.text import format_bytes

INTEL = {"cpu_core": "P-core", "cpu_atom": "E-core", "cpu_lowpower": "LP E-core"}
"""Names of Intel's kinds of cores by the kernel's performance monitoring unit."""
OTHER_CLOCK = 1.15
"""Ratio of the highest clocks above which cores are of another kind; preferred cores of one kind differ by less."""
LARGE = re.compile(r"Cortex-X|C1-(Ultra|Premium)")
SMALL = re.compile(r"Cortex-A(7|34|35|53|55|65|510|520)(AE)?( |$)|C1-Nano|Icestorm|Blizzard|.*-Silver|(LP )?E-core")
"""Cores that are faster or slower than others of the same CPU, where the kernel states neither capacity nor clock."""


def collect_kinds(online: Sequence[int], root: Path = Path("/")) -> list[CoreKind]:
    """Return the kinds of cores, the fastest first; empty if all cores are of one kind, or if a core's is unknown."""
    groups = _by_clock(_by_name(online, root), root)
    if len(groups) < 2:
        groups = _by_caches(online, root)
    if len(groups) < 2:
        return []
    kinds = [_kind(name, cpus, root) for name, cpus in groups]
    capacities = {kind.cpus[0]: _highest(kind.cpus, "cpu_capacity", root) for kind in kinds}
    by_capacity = None not in capacities.values()

    def speed(kind: CoreKind) -> tuple[float, ...]:
        size = 1 if LARGE.match(kind.name) else -1 if SMALL.match(kind.name) else 0
        capacity = capacities[kind.cpus[0]] or 0 if by_capacity else 0
        return (
            capacity,
            size,
            kind.frequency_mhz or 0,
            -kind.name.startswith("LP"),
            *(_size(kind.caches, level) for level in (2, 1)),
        )

    return sorted(kinds, key=speed, reverse=True)


def fastest_usable(kinds: Sequence[CoreKind], usable: Collection[int]) -> CoreKind | None:
    """Return the fastest kind with a usable CPU; None if there are no kinds."""
    return next((kind for kind in kinds if not set(usable).isdisjoint(kind.cpus)), None)


def core_kind_of(kinds: Sequence[CoreKind], cpus: Collection[int | None]) -> str | None:
    """Return the kind of these CPUs, or several names in the order of speed; None if there are no kinds."""
    return ", ".join(kind.name for kind in kinds if not set(cpus).isdisjoint(kind.cpus)) or None


def highest_mhz(cpus: Sequence[int], root: Path = Path("/")) -> float | None:
    """Return the highest clock in MHz that the kernel states for any of these CPUs; None if it states none."""
    khz = _highest(cpus, "cpufreq/cpuinfo_max_freq", root)
    return khz / 1000 if khz else None


def count_cores(cpus: Sequence[int], root: Path = Path("/")) -> int | None:
    """Return the number of physical cores of these CPUs, as sets of sibling logical CPUs."""
    siblings = {read_text(root / CPUS / f"cpu{number}/topology/thread_siblings_list") for number in cpus}
    return len(siblings - {None}) or None


Groups = list[tuple[str | None, list[int]]]
"""Names of kinds, if known, each with its logical CPUs."""


def _by_name(online: Sequence[int], root: Path) -> Groups:
    """Return the CPUs by the name of their core; one group without a name if a core's is unknown."""
    names = _intel_names(root) or _arm_names(online, root) or _stated_names(root)
    if not set(online) <= names.keys():
        return [(None, list(online))]
    return [(name, [number for number in online if names[number] == name]) for name in dict.fromkeys(names.values())]


def _intel_names(root: Path) -> dict[int, str]:
    lists = {name: read_text(root / f"sys/devices/{unit}/cpus") for unit, name in INTEL.items()}
    return {number: name for name, text in lists.items() for number in parse_cpu_list(text or "")}


def _arm_names(online: Sequence[int], root: Path) -> dict[int, str]:
    """Return the names of Arm's cores from cpuinfo, or from MIDR_EL1 if cpuinfo lacks or renumbers CPUs (LXCFS)."""
    listed = read_processors(root)
    found = {}
    for number in online:
        info = listed.get(number, {}) if set(online) <= listed.keys() else {}
        implementer, part = arm_number(info, "cpu implementer"), arm_number(info, "cpu part")
        if part < 0 and (register := read_text(root / CPUS / f"cpu{number}/regs/identification/midr_el1")):
            implementer, part = int(register, 16) >> 24 & 0xFF, int(register, 16) >> 4 & 0xFFF
        if part >= 0:
            maker = IMPLEMENTERS.get(implementer, f"implementer {implementer:#x}")
            found[number] = core_name(implementer, part) or f"{maker} part {part:#x}"
    return found


def _stated_names(root: Path) -> dict[int, str]:
    """Return the names of cores by cpuinfo, if it states different ones: RISC-V, or sockets with different CPUs."""
    names = {number: processor_name(info) for number, info in read_processors(root).items()}
    return {number: name for number, name in names.items() if name} if len({*names.values()}) > 1 else {}


def _by_clock(groups: Groups, root: Path) -> Groups:
    """Divide each group at gaps between the highest clocks of its CPUs; the parts are named by their clock."""
    found: Groups = []
    for name, cpus in groups:
        clocks = {number: highest_mhz([number], root) or 0.0 for number in cpus}
        gaps = [high for low, high in pairwise(sorted(set(clocks.values()))) if high > OTHER_CLOCK * low]
        if not gaps or not min(clocks.values()):
            found.append((name, cpus))
            continue
        # The number of gaps up to its clock is common to the CPUs of one part.
        places = {number: sum(gap <= clock for gap in gaps) for number, clock in clocks.items()}
        for part in _divided(cpus, places.__getitem__):
            found.append((f"{name or 'core'} of {max(map(clocks.__getitem__, part)):.0f} MHz", part))
    return found


def _by_caches(online: Sequence[int], root: Path) -> Groups:
    """Divide the CPUs by the sizes of the caches of their core; one group if a CPU lists none, as in some guests."""
    sizes = {}
    for number in online:
        caches = collect_caches([number], root)
        sizes[number] = (_size(caches, 1), _size(caches, 2))
    if not all(map(all, sizes.values())):
        return []
    return [
        (f"core with L1 {format_bytes(sizes[part[0]][0])} and L2 {format_bytes(sizes[part[0]][1])}", part)
        for part in _divided(online, sizes.__getitem__)
    ]


def _divided(cpus: Sequence[int], key: Callable[[int], Hashable]) -> list[list[int]]:
    groups: dict[Hashable, list[int]] = {}
    for number in cpus:
        groups.setdefault(key(number), []).append(number)
    return list(groups.values())


def _kind(name: str | None, cpus: list[int], root: Path) -> CoreKind:
    return CoreKind(
        name=name or "core",
        cpus=cpus,
        cores=count_cores(cpus, root),
        frequency_mhz=highest_mhz(cpus, root),
        caches=collect_caches(cpus, root),
    )


def _size(caches: Sequence[Cache], level: int) -> int:
    return next((cache.size_bytes for cache in caches if cache.level == level and cache.kind != "Instruction"), 0)


def _highest(cpus: Sequence[int], name: str, root: Path) -> int | None:
    """Return the largest number in this file of the CPUs; None if none of them has it."""
    found = (read_int(root / CPUS / f"cpu{number}/{name}") for number in cpus)
    return max((number for number in found if number), default=None)
