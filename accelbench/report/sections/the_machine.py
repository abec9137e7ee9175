"""The environment record as a person reads it: facts with their labels, and the reason where one is unknown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from accelbench.environment.differences import unlike
from accelbench.environment.fields import LabelledValue, facts, in_words, short_revision
from accelbench.execution.store import RunInfo
from accelbench.output.format import counted
from accelbench.profiling.machine.cpu_probe import slower_in_words
from accelbench.profiling.machine.held_back import USERS, held_back
from accelbench.profiling.records.environment import Environment, System
from accelbench.profiling.text import format_bytes
from accelbench.report.section import InPage, Section


@dataclass(frozen=True)
class MachinePart:
    """Part of the machine with its labelled values."""

    name: str
    facts: tuple[LabelledValue, ...]


FieldFormatter = Callable[..., LabelledValue]
"""The function that makes a fact of that label and path, given what to say where the machine has no such thing."""


def machine(info: RunInfo) -> list[MachinePart]:
    """Return the machine by its parts: CPU, memory, GPUs, system, software, and the ranks where there were several."""
    environment = info.environment
    values, unknown = facts(environment), environment.unknown

    def told(label: str, path: str, absent: str | None = None) -> LabelledValue:
        value = values.get(path)
        return LabelledValue(label, absent if value is None else in_words(path, value), unknown.get(path))

    found = [
        ("CPU", _cpu(environment, told)),
        ("Memory and limits", _memory(environment, told)),
        *((f"GPU {gpu.index}", _gpu(environment, place, told)) for place, gpu in enumerate(environment.gpus)),
        *([("GPU", [told("devices", "gpus", "none")])] if not environment.gpus else []),
        ("System", _system(environment, told)),
        ("Software", _software(environment, told)),
        *([("Ranks", _ranks(info))] if info.other_ranks else []),
    ]
    return [MachinePart(name, tuple(of_part)) for name, of_part in found]


def _ranks(info: RunInfo) -> Iterable[LabelledValue]:
    """Yield who was on which node, and where a rank was not like rank 0, whose machine the other parts are."""
    nodes = {0: [(0, info.environment)]}
    for other in info.other_ranks:
        nodes.setdefault(other.node, []).append((other.rank, other.environment))
    for node, members in nodes.items():
        cards = {gpu.uuid_hash: gpu.name for _, seen in members for gpu in seen.gpus}
        numbers = ", ".join(str(rank) for rank, _ in members)
        gpus = [f"{count}× {name}" for name, count in Counter(cards.values()).items()]
        there = ", ".join([members[0][1].cpu.model or "unknown CPU", *gpus])
        yield LabelledValue(f"node {node}", f"rank{'s' * (len(members) > 1)} {numbers}: {there}")
    for other in info.other_ranks:
        if found := list(unlike(info.environment, other.environment, info.device)):
            yield LabelledValue(f"rank {other.rank} differs", "; ".join(found))


def _cpu(environment: Environment, told: FieldFormatter) -> Iterable[LabelledValue]:
    cpu = environment.cpu
    yield told("model", "cpu.model")
    yield told("architecture", "cpu.architecture")
    sockets = None if cpu.sockets is None else counted(cpu.sockets, "socket")
    cores = None if cpu.cores is None else f"{cpu.cores} cores"
    topology = ", ".join(filter(None, [sockets, cores, f"{cpu.logical} logical CPUs"]))
    yield LabelledValue("topology", topology, environment.unknown.get("cpu.cores"))
    yield LabelledValue("usable by this run", f"{cpu.usable} logical CPUs")
    caches = [
        f"L{cache.level}{'' if cache.kind == 'Unified' else ' ' + cache.kind.lower()} {format_bytes(cache.size_bytes)}"
        + (f" shared by {cache.shared_by}" if cache.shared_by > 1 else "")
        for cache in cpu.caches
    ]
    yield LabelledValue("caches", ", ".join(caches) or None, environment.unknown.get("cpu.caches"))
    yield told("instruction sets", "cpu.isa")
    yield told("stated clock", "cpu.frequency_mhz")
    yield told("frequency governor", "cpu.governor")
    if cpu.bandwidths:
        yield LabelledValue("CPUs by a short probe", slower_in_words(cpu.bandwidths) or "all alike within 5 %")
    yield told("memory nodes (NUMA)", "cpu.numa_nodes")
    yield told("hypervisor", "cpu.hypervisor", "none seen")


def _memory(environment: Environment, told: FieldFormatter) -> Iterable[LabelledValue]:
    memory = environment.memory
    yield LabelledValue(
        "memory", f"{format_bytes(memory.total_bytes)}, {format_bytes(memory.available_bytes)} available at the start"
    )
    yield LabelledValue("swap", "none") if memory.swap_bytes == 0 else told("swap", "memory.swap_bytes")
    yield told("transparent huge pages", "memory.huge_pages")
    yield told("CPU quota", "limits.cpu_quota", "none")
    yield told("memory limit", "limits.memory_bytes", "none")


def _gpu(environment: Environment, place: int, told: FieldFormatter) -> Iterable[LabelledValue]:
    gpu, path = environment.gpus[place], f"gpus.{place}"
    yield told("model", f"{path}.name")
    yield told("vendor", f"{path}.vendor")
    yield told("memory", f"{path}.memory_bytes")
    yield told("compute capability", f"{path}.compute_capability")
    yield told("multiprocessors", f"{path}.multiprocessors")
    yield told("L2 cache", f"{path}.l2_bytes")
    yield told("highest SM clock", f"{path}.sm_clock_max_mhz")
    yield told("highest memory clock", f"{path}.memory_clock_max_mhz")
    yield told("power limit", f"{path}.power_limit_w")
    yield told("ECC", f"{path}.ecc")
    yield told("MIG", f"{path}.mig")
    yield told("persistence mode", f"{path}.persistence")
    known = gpu.pcie_generation is not None and gpu.pcie_width is not None
    yield LabelledValue("PCI Express", f"{gpu.pcie_generation}.0 ×{gpu.pcie_width}" if known else None)
    yield told("card (hash of its UUID)", f"{path}.uuid_hash")


def _system(environment: Environment, told: FieldFormatter) -> Iterable[LabelledValue]:
    system = environment.system
    yield told("operating system", "system.os")
    yield told("kernel", "system.kernel")
    yield LabelledValue("container", ", ".join(_container(system)) or "none seen")
    yield told("scheduler", "system.scheduler", "none seen")
    if system.runtime:
        yield told("runtime", "system.runtime")
    yield told("clock source", "system.clock_source")
    if environment.cuda is not None:
        yield told("NVIDIA driver", "cuda.driver")
        yield told("CUDA of the driver", "cuda.driver_cuda")
        yield told("CUDA runtime", "cuda.runtime")


def _container(system: System) -> Iterable[str]:
    if system.container:
        yield system.container
        yield f"image {system.image[:19]}" if system.image else "image not told"
    if system.user_namespace:
        yield "users mapped (a user namespace)"


def _software(environment: Environment, told: FieldFormatter) -> Iterable[LabelledValue]:
    software = environment.software
    revision = f" ({short_revision(software.revision)})" if software.revision else ""
    yield LabelledValue("accelbench", f"{software.accelbench}{revision}")
    yield LabelledValue("Python", f"{software.implementation} {software.python}")
    yield LabelledValue(
        "libraries", ", ".join(f"{name} {version}" for name, version in software.libraries.items()) or "none"
    )
    yield told("BLAS of NumPy", "software.blas")
    yield LabelledValue("threads", _pairs(software.threads) or "no setting")
    yield LabelledValue("framework settings", _pairs(software.settings) or "no setting")
    if held := held_back(environment, USERS):
        yield LabelledValue("held back", "; ".join(held))


def _pairs(settings: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())


section = Section(find=lambda run: machine(run.info), page=InPage("the_machine.html", "machine", "Machine"))
