"""Processor facts from `/proc/cpuinfo` and `/sys/devices/system` (proc(5), Linux `ABI/*/sysfs-*-cpu`)."""

from __future__ import annotations

import os
import platform
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from accelbench.profiling.machine.environment.files import parse_cpu_list, read_int, read_pairs, read_text
from accelbench.profiling.records.environment import Cache, Cpu

CPUS = "sys/devices/system/cpu"

# Vector and matrix extensions, by the kernel's names.
ISA = (
    *("sse4_2", "avx", "f16c", "fma", "avx2", "avx_vnni", "avx512f", "avx512dq", "avx512bw", "avx512vl"),
    *("avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "amx_fp16"),
    *("asimd", "fphp", "asimdhp", "asimddp", "bf16", "i8mm", "sve", "sve2", "svebf16", "sme", "sme2"),
)

# Arm: names of implementer and part in MIDR_EL1, as in util-linux' lscpu.
ARM_IMPLEMENTERS = {
    0x41: "ARM",
    0x46: "Fujitsu",
    0x48: "HiSilicon",
    0x4E: "NVIDIA",
    0x50: "APM",
    0x51: "Qualcomm",
    0x61: "Apple",
    0x6D: "Microsoft",
    0xC0: "Ampere",
}
ARM_PARTS = {
    (0x41, 0xD03): "Cortex-A53",
    (0x41, 0xD07): "Cortex-A57",
    (0x41, 0xD08): "Cortex-A72",
    (0x41, 0xD0B): "Cortex-A76",
    (0x41, 0xD0C): "Neoverse-N1",
    (0x41, 0xD40): "Neoverse-V1",
    (0x41, 0xD42): "Cortex-A78AE",
    (0x41, 0xD49): "Neoverse-N2",
    (0x41, 0xD4F): "Neoverse-V2",
    (0x41, 0xD84): "Neoverse-V3",
    (0x46, 0x001): "A64FX",
    (0x48, 0xD01): "TaiShan-v110",
    (0x4E, 0x003): "Denver-2",
    (0x4E, 0x004): "Carmel",
    (0xC0, 0xAC3): "Ampere-1",
    (0xC0, 0xAC4): "Ampere-1a",
}

# Hypervisors by firmware vendor and by clock source, without the CPUID instruction.
HYPERVISOR_FIRMWARE = {
    "qemu": "kvm",
    "amazon ec2": "nitro",
    "google": "kvm",
    "microsoft corporation": "hyper-v",
    "vmware, inc.": "vmware",
    "xen": "xen",
    "innotek gmbh": "virtualbox",
}
HYPERVISOR_CLOCKS = {"kvm-clock": "kvm", "xen": "xen", "hyperv_clocksource_tsc_page": "hyper-v"}


def collect_cpu(root: Path = Path("/")) -> Cpu:
    """Return all processor facts."""
    info = collect_cpuinfo(root)
    online = collect_online(root)
    return Cpu(
        model=collect_model(info),
        vendor=collect_vendor(info),
        family=_number(info, "cpu family"),
        model_number=_number(info, "model"),
        architecture=platform.machine(),
        sockets=collect_sockets(online, root),
        cores=collect_cores(online, root),
        logical=len(online),
        usable=count_usable(root),
        affinity=collect_affinity(root),
        caches=collect_caches(root),
        isa=collect_isa(info),
        governor=collect_governor(root),
        frequency_mhz=collect_frequency(info, root),
        hypervisor=collect_hypervisor(info, root),
        numa_nodes=collect_numa_nodes(root),
    )


def collect_cpuinfo(root: Path = Path("/")) -> dict[str, str]:
    """Return the first processor's entries in `/proc/cpuinfo`."""
    first, _, _ = (read_text(root / "proc/cpuinfo") or "").partition("\n\n")
    parts = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in parts}


def collect_model(info: dict[str, str]) -> str | None:
    """Return the processor's name: as stated on x86 and POWER, by implementer and part on Arm."""
    stated = info.get("model name") or info.get("cpu")
    return stated or ARM_PARTS.get((_arm_number(info, "CPU implementer"), _arm_number(info, "CPU part")))


def collect_vendor(info: dict[str, str]) -> str | None:
    return info.get("vendor_id") or ARM_IMPLEMENTERS.get(_arm_number(info, "CPU implementer"))


def _arm_number(info: dict[str, str], name: str) -> int:
    return int(info.get(name) or "-1", 16)


def _number(info: dict[str, str], name: str) -> int | None:
    value = info.get(name, "")
    return int(value) if value.isdigit() else None


def collect_online(root: Path = Path("/")) -> list[int]:
    """Return the online logical CPUs: those that the kernel lists, and those that this process may use.

    LXCFS lists as many CPUs as the container's quota, numbered from 0.
    """
    text = read_text(root / CPUS / "online")
    listed = parse_cpu_list(text) if text else range(os.cpu_count() or 1)
    return sorted({*listed, *(collect_affinity(root) or ())})


def collect_affinity(root: Path = Path("/")) -> list[int] | None:
    """Return the logical CPUs that this process may use; None if the system has no CPU affinity."""
    text = read_pairs(root / "proc/self/status", ":").get("Cpus_allowed_list") if root != Path("/") else None
    if text:
        return parse_cpu_list(text)
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def count_usable(root: Path = Path("/")) -> int:
    """Return the number of logical CPUs that this process may use, regardless of a quota."""
    return len(collect_affinity(root) or collect_online(root))


def collect_sockets(online: list[int], root: Path = Path("/")) -> int | None:
    packages = {read_int(root / CPUS / f"cpu{number}/topology/physical_package_id") for number in online}
    return len(packages - {None, -1}) or None  # Arm firmware without this value reports −1


def collect_cores(online: list[int], root: Path = Path("/")) -> int | None:
    """Return the number of physical cores, as sets of sibling logical CPUs."""
    siblings = {read_text(root / CPUS / f"cpu{number}/topology/thread_siblings_list") for number in online}
    return len(siblings - {None}) or None


def cores_before_threads(cpus: Iterable[int], root: Path = Path("/")) -> list[int]:
    """Return these logical CPUs ordered by hardware thread of the core, then by number.

    A CPU without topology information counts as a core.
    """
    return [number for _, number in _by_thread(cpus, root)]


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


def collect_caches(root: Path = Path("/")) -> list[Cache]:
    """Return the caches of the first CPU, lowest level first."""
    caches = []
    for folder in sorted((root / CPUS / "cpu0/cache").glob("index*")):
        level, size = read_int(folder / "level"), read_text(folder / "size")
        kind, shared = read_text(folder / "type"), read_text(folder / "shared_cpu_list")
        if level and size and kind and shared:
            caches.append(
                Cache(level=level, kind=kind, size_bytes=parse_size(size), shared_by=len(parse_cpu_list(shared)))
            )
    return sorted(caches, key=lambda cache: cache.level)


def parse_size(text: str) -> int:
    """Parse a size such as `32K` or `8M` into bytes."""
    return int(text.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(text[-1], 0)


def collect_isa(info: dict[str, str]) -> list[str]:
    present = set((info.get("flags") or info.get("Features") or "").split())
    return [name for name in ISA if name in present]


def collect_governor(root: Path = Path("/")) -> str | None:
    """Return the frequency governor, or all governors if the CPUs differ."""
    found = {read_text(path) for path in (root / CPUS).glob("cpu[0-9]*/cpufreq/scaling_governor")}
    return ", ".join(sorted(filter(None, found))) or None


def collect_frequency(info: dict[str, str], root: Path = Path("/")) -> float | None:
    """Return the maximum clock in MHz, or the current one if the kernel states no maximum."""
    highest_khz = read_int(root / CPUS / "cpu0/cpufreq/cpuinfo_max_freq")
    if highest_khz:
        return highest_khz / 1000
    present = re.match(r"[\d.]+", info.get("cpu MHz") or info.get("clock") or "")
    return float(present[0]) if present else None


def collect_hypervisor(info: dict[str, str], root: Path = Path("/")) -> str | None:
    """Return the hypervisor's name; `unnamed` if it is unknown; None on bare metal."""
    maker = (read_text(root / "sys/class/dmi/id/sys_vendor") or "").lower()
    tree = read_text(root / "proc/device-tree/hypervisor/compatible") or ""
    clock = read_text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource") or ""
    product = (read_text(root / "sys/class/dmi/id/product_name") or "").lower()
    # Firmware of Amazon, Google and Microsoft is also on bare metal. On x86 only the CPU's flag identifies a guest; on
    # other processors, which have no such flag, the product name identifies Amazon's bare-metal instances.
    virtual = "hypervisor" in info.get("flags", "").split() or ("flags" not in info and not product.endswith(".metal"))
    named = HYPERVISOR_FIRMWARE.get(maker) if virtual or maker in ("qemu", "xen") else None
    unnamed = "unnamed" if virtual and "flags" in info else None
    return named or HYPERVISOR_CLOCKS.get(clock) or tree.removeprefix("linux,") or unnamed


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
