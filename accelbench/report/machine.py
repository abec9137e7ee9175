"""The environment record as a person reads it: facts with their labels, and the reason where one is unknown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from accelbench.compare.differences import unlike
from accelbench.format import digits, plain, size
from accelbench.run.store import RunInfo
from profiling.records.environment import Cpu, Environment, Gpu, System


@dataclass(frozen=True)
class Fact:
    label: str
    value: str | None
    """None is unknown, which is not the same as none."""
    reason: str | None = None


@dataclass(frozen=True)
class Part:
    """A part of the machine and what is known of it."""

    name: str
    facts: tuple[Fact, ...]


def machine(info: RunInfo) -> list[Part]:
    """The machine by its parts: CPU, memory, GPUs, system, software, and the ranks where there were several."""
    environment, unknown = info.environment, info.environment.unknown
    parts = [
        ("CPU", _cpu(environment.cpu, unknown)),
        ("Memory and limits", _memory(environment)),
        *((f"GPU {gpu.index}", _gpu(gpu)) for gpu in environment.gpus),
        *([("GPU", [Fact("devices", "none", unknown.get("gpus"))])] if not environment.gpus else []),
        ("System", _system(environment)),
        ("Software", _software(environment)),
        *([("Ranks", _ranks(info))] if info.other_ranks else []),
    ]
    return [
        Part(name, tuple(Fact(f.label, f.value and plain(f.value), f.reason and plain(f.reason)) for f in facts))
        for name, facts in parts
    ]


def _ranks(info: RunInfo) -> Iterable[Fact]:
    """Who was on which node, and where a rank was not like rank 0, whose machine the other parts are."""
    nodes = {0: [(0, info.environment)]}
    for other in info.other_ranks:
        nodes.setdefault(other.node, []).append((other.rank, other.environment))
    for node, members in nodes.items():
        cards = {gpu.uuid_hash: gpu.name for _, seen in members for gpu in seen.gpus}
        numbers = ", ".join(str(rank) for rank, _ in members)
        gpus = [f"{count}× {name}" for name, count in Counter(cards.values()).items()]
        there = ", ".join([members[0][1].cpu.model or "unknown CPU", *gpus])
        yield Fact(f"node {node}", f"rank{'s' * (len(members) > 1)} {numbers}: {there}")
    for other in info.other_ranks:
        if found := list(unlike(info.environment, other.environment, info.device)):
            yield Fact(f"rank {other.rank} differs", "; ".join(found))


def _cpu(cpu: Cpu, unknown: dict[str, str]) -> Iterable[Fact]:
    yield Fact("model", cpu.model, unknown.get("cpu.model"))
    yield Fact("architecture", cpu.architecture)
    sockets = None if cpu.sockets is None else f"{cpu.sockets} socket{'s' * (cpu.sockets != 1)}"
    cores = None if cpu.cores is None else f"{cpu.cores} cores"
    yield Fact(
        "topology",
        ", ".join(filter(None, [sockets, cores, f"{cpu.logical} logical CPUs"])),
        unknown.get("cpu.cores"),
    )
    yield Fact("usable by this run", f"{cpu.usable} logical CPUs")
    caches = [
        f"L{cache.level}{'' if cache.kind == 'Unified' else ' ' + cache.kind.lower()} {size(cache.size_bytes)}"
        + (f" shared by {cache.shared_by}" if cache.shared_by > 1 else "")
        for cache in cpu.caches
    ]
    yield Fact("caches", ", ".join(caches) or None, unknown.get("cpu.caches"))
    yield Fact("instruction sets", ", ".join(cpu.isa) or None, unknown.get("cpu.isa"))
    clock = None if cpu.frequency_mhz is None else f"{digits(cpu.frequency_mhz, 4)} MHz"
    yield Fact("stated clock", clock, unknown.get("cpu.frequency_mhz"))
    yield Fact("frequency governor", cpu.governor, unknown.get("cpu.governor"))
    yield Fact("memory nodes (NUMA)", _text(cpu.numa_nodes), unknown.get("cpu.numa_nodes"))
    yield Fact("hypervisor", cpu.hypervisor or "none seen")


def _memory(environment: Environment) -> Iterable[Fact]:
    memory, limits, unknown = environment.memory, environment.limits, environment.unknown
    yield Fact("memory", f"{size(memory.total_bytes)}, {size(memory.available_bytes)} available at the start")
    swap = None if memory.swap_bytes is None else size(memory.swap_bytes) if memory.swap_bytes else "none"
    yield Fact("swap", swap, unknown.get("memory.swap_bytes"))
    yield Fact("transparent huge pages", memory.huge_pages, unknown.get("memory.huge_pages"))
    yield Fact("CPU quota", "none" if limits.cpu_quota is None else f"{limits.cpu_quota:g} CPUs")
    yield Fact("memory limit", "none" if limits.memory_bytes is None else size(limits.memory_bytes))


def _gpu(gpu: Gpu) -> Iterable[Fact]:
    yield Fact("model", gpu.name)
    yield Fact("memory", None if gpu.memory_bytes is None else size(gpu.memory_bytes))
    yield Fact("compute capability", gpu.compute_capability)
    yield Fact("multiprocessors", _text(gpu.multiprocessors))
    yield Fact("L2 cache", None if gpu.l2_bytes is None else size(gpu.l2_bytes))
    yield Fact("highest SM clock", _with_unit(gpu.sm_clock_max_mhz, "MHz"))
    yield Fact("highest memory clock", _with_unit(gpu.memory_clock_max_mhz, "MHz"))
    yield Fact("power limit", _with_unit(gpu.power_limit_w, "W"))
    yield Fact("ECC", _switch(gpu.ecc))
    yield Fact("MIG", _switch(gpu.mig))
    yield Fact("persistence mode", _switch(gpu.persistence))
    pcie = (
        None if gpu.pcie_generation is None or gpu.pcie_width is None else f"{gpu.pcie_generation}.0 ×{gpu.pcie_width}"
    )
    yield Fact("PCI Express", pcie)
    yield Fact("card (hash of its UUID)", gpu.uuid_hash)


def _system(environment: Environment) -> Iterable[Fact]:
    system, unknown = environment.system, environment.unknown
    yield Fact("operating system", system.os)
    yield Fact("kernel", system.kernel)
    yield Fact("container", ", ".join(_container(system)) or "none seen")
    yield Fact("scheduler", system.scheduler or "none seen")
    if system.runtime:
        yield Fact("runtime", system.runtime)
    yield Fact("clock source", system.clock_source, unknown.get("system.clock_source"))
    if environment.cuda is not None:
        cuda = environment.cuda
        yield Fact("NVIDIA driver", cuda.driver, unknown.get("cuda.driver"))
        yield Fact("CUDA of the driver", cuda.driver_cuda, unknown.get("cuda.driver_cuda"))
        yield Fact("CUDA runtime", cuda.runtime, unknown.get("cuda.runtime"))


def _container(system: System) -> Iterable[str]:
    if system.container:
        yield system.container
        yield f"image {system.image[:19]}" if system.image else "image not told"
    if system.user_namespace:
        yield "users mapped (a user namespace)"


def _software(environment: Environment) -> Iterable[Fact]:
    software, unknown = environment.software, environment.unknown
    revision = (
        f" ({software.revision[:12]}{'-dirty' * software.revision.endswith('-dirty')})" if software.revision else ""
    )
    yield Fact("accelbench", f"{software.accelbench}{revision}")
    yield Fact("Python", f"{software.implementation} {software.python}")
    yield Fact("libraries", ", ".join(f"{name} {version}" for name, version in software.libraries.items()) or "none")
    yield Fact("BLAS of NumPy", software.blas, unknown.get("software.blas"))
    yield Fact("threads", _pairs(software.threads) or "no setting")
    yield Fact("framework settings", _pairs(software.settings) or "no setting")


def _pairs(settings: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)


def _with_unit(value: float | None, unit: str) -> str | None:
    return None if value is None else f"{value:,.0f} {unit}"


def _switch(value: bool | None) -> str | None:
    return None if value is None else "on" if value else "off"
