"""Processor facts from `/proc/cpuinfo` and `/sys/devices/system` (proc(5), Linux `ABI/*/sysfs-*-cpu`)."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from accelbench.profiling.machine.environment.caches import collect_caches
from accelbench.profiling.machine.environment.core_kinds import collect_kinds, count_cores, fastest_usable, highest_mhz
from accelbench.profiling.machine.environment.cpuinfo import (
    Entries,
    current_mhz,
    instruction_sets,
    processor_name,
    processor_vendor,
    read_cpuinfo,
)
from accelbench.profiling.machine.environment.files import CPUS, parse_cpu_list, read_int, read_pairs, read_text
from accelbench.profiling.machine.environment.hypervisor import collect_hypervisor
from accelbench.profiling.machine.environment.limits import groups
from accelbench.profiling.records.environment import CoreKind, Cpu


def collect_cpu(root: Path = Path("/")) -> Cpu:
    """Return all processor facts."""
    info, online = read_cpuinfo(root), collect_online(root)
    affinity, kinds = collect_affinity(root), collect_kinds(online, root)
    fastest = fastest_usable(kinds, online if affinity is None else affinity)
    return Cpu(
        model=_model(info, kinds),
        vendor=processor_vendor(info),
        family=_number(info, "cpu family"),
        model_number=_number(info, "model") if "cpu family" in info else None,
        architecture=platform.machine(),
        sockets=collect_sockets(online, root),
        cores=count_cores(online, root),
        logical=len(online),
        usable=len(online if affinity is None else affinity),
        affinity=affinity,
        caches=collect_caches(online, root),
        isa=instruction_sets(info),
        governor=collect_governor(root),
        frequency_mhz=highest_mhz(online, root) or current_mhz(info),
        hypervisor=collect_hypervisor(info, root),
        numa_nodes=collect_numa_nodes(root),
        kinds=kinds,
        one_core_kind=fastest.name if fastest else None,
    )


def _model(info: Entries, kinds: Sequence[CoreKind]) -> str | None:
    """Return the processor's name; if its cores have several names, all of them."""
    stated, names = processor_name(info), [kind.name for kind in kinds]
    by_name = "cpu implementer" in info or stated in names
    return " + ".join(names) if names and by_name and not names[0].startswith("core") else stated


def _number(info: Entries, name: str) -> int | None:
    value = info.get(name, "")
    return int(value) if value.isdigit() else None


def collect_online(root: Path = Path("/")) -> list[int]:
    """Return the online logical CPUs: those that the kernel lists, and those that this process may use.

    LXCFS lists as many CPUs as the container may use, numbered from 0: the usable CPUs have the kernel's numbers.
    """
    text, usable = read_text(root / CPUS / "online"), set(collect_affinity(root) or ())
    listed = set(parse_cpu_list(text) if text else range(os.cpu_count() or 1))
    return sorted(listed if usable <= listed else usable if len(usable) >= len(listed) else usable | listed)


def collect_affinity(root: Path = Path("/")) -> list[int] | None:
    """Return the logical CPUs that this process may use; None if the system has no CPU affinity."""
    text = read_pairs(root / "proc/self/status", ":").get("Cpus_allowed_list") if root != Path("/") else None
    if text is None:
        return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    allowed = set(parse_cpu_list(text)) - _offline(root)
    return sorted(allowed & _cpuset(root) or allowed) or None


def _offline(root: Path) -> set[int]:
    """Return the CPUs that are offline: unlike `sched_getaffinity`, a process's status includes them."""
    listed = set(parse_cpu_list(read_text(root / CPUS / "offline") or ""))
    switched = {int(path.parent.name[3:]) for path in (root / CPUS).glob("cpu[0-9]*/online") if read_int(path) == 0}
    return listed | switched


def _cpuset(root: Path) -> set[int]:
    """Return the CPUs of the process's cpuset; empty without one."""
    names = ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus")
    texts = (read_text(group / name) for group in groups("cpuset", root) for name in names)
    return set(parse_cpu_list(next(filter(None, texts), "")))


def count_usable(root: Path = Path("/")) -> int:
    """Return the number of logical CPUs that this process may use, regardless of a quota."""
    return len(collect_affinity(root) or collect_online(root))


def collect_sockets(online: list[int], root: Path = Path("/")) -> int | None:
    packages = {read_int(root / CPUS / f"cpu{number}/topology/physical_package_id") for number in online}
    return len(packages - {None, -1}) or None  # Arm firmware without this value reports −1


def cores_before_threads(
    cpus: Iterable[int], root: Path = Path("/"), kinds: Sequence[CoreKind] | None = None
) -> list[int]:
    """Return these logical CPUs ordered by hardware thread of the core, then by kind of core, then by number.

    A CPU without topology information counts as a core. The kinds (None: as the system has them) are in the order of
    speed.
    """
    kinds = collect_kinds(collect_online(root), root) if kinds is None else kinds
    rank = {number: place for place, kind in enumerate(kinds) for number in kind.cpus}
    ordered = sorted(_by_thread(cpus, root), key=lambda pair: (pair[0], rank.get(pair[1], len(kinds)), pair[1]))
    return [number for _, number in ordered]


def one_thread_per_core(cpus: Iterable[int], root: Path = Path("/")) -> list[int]:
    """Return the lowest of these logical CPUs on each of their physical cores."""
    return [number for thread, number in _by_thread(cpus, root) if thread == 0]


def _by_thread(cpus: Iterable[int], root: Path) -> list[tuple[int, int]]:
    """Return sorted pairs `(index among the given CPUs of the same core, logical CPU)`."""
    taken: Counter[str | int] = Counter()
    pairs = []
    for number in sorted(cpus):
        topology = root / CPUS / f"cpu{number}/topology"
        core = read_text(topology / "core_cpus_list") or read_text(topology / "thread_siblings_list") or number
        pairs.append((taken[core], number))
        taken[core] += 1
    return sorted(pairs)


def collect_governor(root: Path = Path("/")) -> str | None:
    """Return the frequency governor, or all governors if the CPUs differ."""
    found = {read_text(path) for path in (root / CPUS).glob("cpu[0-9]*/cpufreq/scaling_governor")}
    return ", ".join(sorted(filter(None, found))) or None


def collect_numa_nodes(root: Path = Path("/")) -> int | None:
    """Return the number of NUMA nodes with CPUs; a Grace Hopper's GPU memory is a node without CPUs."""
    nodes = root / "sys/devices/system/node"
    text = read_text(nodes / "has_cpu") or read_text(nodes / "online")
    return len(parse_cpu_list(text)) if text else None


def collect_throttle_count(root: Path = Path("/")) -> int | None:
    """Return the number of thermal throttling events of all cores since boot (Intel); None if not counted."""
    paths = (root / CPUS).glob("cpu[0-9]*/thermal_throttle/core_throttle_count")
    counts = [count for path in paths if (count := read_int(path)) is not None]
    return sum(counts) if counts else None


def collect_energy(root: Path = Path("/")) -> dict[str, tuple[int, int]]:
    """Return each package's energy counter and its wrap-around value in µJ (RAPL; often readable by root only)."""
    counters = {}
    for zone in (root / "sys/class/powercap").glob("intel-rapl:*"):
        name, energy, wrap = (
            read_text(zone / "name"),
            read_int(zone / "energy_uj"),
            read_int(zone / "max_energy_range_uj"),
        )
        if name and name.startswith("package") and energy is not None and wrap:
            counters[zone.name] = (energy, wrap)
    return counters
