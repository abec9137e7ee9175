"""Section of the machine: labelled facts of the environment record, with reasons for unknown ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from accelbench.environment.differences import rank_differences
from accelbench.environment.fields import LabelledValue, facts, in_words, short_revision
from accelbench.execution.store import RunInfo
from accelbench.output.format import counted
from accelbench.profiling.machine.cpu_probe import format_slower_cpus
from accelbench.profiling.machine.environment.files import format_cpu_list
from accelbench.profiling.machine.limiting_settings import USERS, limiting_settings
from accelbench.profiling.machine.vendor_peaks import core_flops_per_cycle
from accelbench.profiling.records.environment import Cache, Cpu, Environment, System
from accelbench.profiling.text import format_bytes
from accelbench.report.section import InPage, Section


@dataclass(frozen=True)
class MachinePart:
    """Part of the machine with its labelled values."""

    name: str
    facts: tuple[LabelledValue, ...]


FieldFormatter = Callable[..., LabelledValue]
"""Function of label, path in the environment record and text for an absent value that returns the labelled value."""


def machine(info: RunInfo) -> list[MachinePart]:
    """Return the parts of the machine: CPU, memory, GPUs, system, software, and the ranks if there are several."""
    environment = info.environment
    values, unknown = facts(environment), environment.unknown

    def value_of(label: str, path: str, absent: str | None = None) -> LabelledValue:
        value = values.get(path)
        return LabelledValue(label, absent if value is None else in_words(path, value), unknown.get(path))

    tpu = _tpu(environment, value_of)
    found = [
        ("CPU", _cpu(environment, value_of)),
        ("Memory and limits", _memory(environment, value_of)),
        *((f"GPU {gpu.index}", _gpu(environment, place, value_of)) for place, gpu in enumerate(environment.gpus)),
        *([("GPU", [value_of("devices", "gpus", "none")])] if not (environment.gpus or tpu) else []),
        *([("TPU", tpu)] if tpu else []),
        ("System", _system(environment, value_of)),
        ("Software", _software(environment, value_of)),
        *([("Ranks", _ranks(info))] if info.other_ranks else []),
    ]
    return [MachinePart(name, tuple(of_part)) for name, of_part in found]


def _ranks(info: RunInfo) -> Iterable[LabelledValue]:
    """Yield the ranks of each node, and differences between a rank's environment and rank 0's."""
    nodes = {0: [(0, info.environment)]}
    for other in info.other_ranks:
        nodes.setdefault(other.node, []).append((other.rank, other.environment))
    for node, members in nodes.items():
        cards = {gpu.uuid_hash: gpu.name for _, member in members for gpu in member.gpus}
        numbers = ", ".join(str(rank) for rank, _ in members)
        gpus = [f"{count}× {name}" for name, count in Counter(cards.values()).items()]
        there = ", ".join([members[0][1].cpu.model or "unknown CPU", *gpus])
        yield LabelledValue(f"node {node}", f"rank{'s' * (len(members) > 1)} {numbers}: {there}")
    for other in info.other_ranks:
        if found := list(rank_differences(info.environment, other.environment, info.device)):
            yield LabelledValue(f"rank {other.rank} differs", "; ".join(found))


def _cpu(environment: Environment, value_of: FieldFormatter) -> Iterable[LabelledValue]:
    cpu = environment.cpu
    yield value_of("model", "cpu.model")
    yield value_of("architecture", "cpu.architecture")
    sockets = None if cpu.sockets is None else counted(cpu.sockets, "socket")
    cores = None if cpu.cores is None else f"{cpu.cores} cores"
    topology = ", ".join(filter(None, [sockets, cores, f"{cpu.logical} logical CPUs"]))
    yield LabelledValue("topology", topology, environment.unknown.get("cpu.cores"))
    yield LabelledValue("usable by this run", f"{cpu.usable} logical CPUs")
    if cpu.kinds:
        yield from _kinds_of_cores(cpu)
    else:
        yield LabelledValue("caches", _caches(cpu.caches), environment.unknown.get("cpu.caches"))
    yield value_of("instruction sets", "cpu.isa")
    yield value_of("stated clock", "cpu.frequency_mhz")
    yield value_of("frequency governor", "cpu.governor")
    if cpu.bandwidths:
        slower = format_slower_cpus(cpu.bandwidths, cpu.kinds)
        yield LabelledValue("CPUs by a short probe", slower or "equal within 5 %")
    yield value_of("memory nodes (NUMA)", "cpu.numa_nodes")
    yield value_of("hypervisor", "cpu.hypervisor", "none detected")


def _kinds_of_cores(cpu: Cpu) -> Iterable[LabelledValue]:
    """Yield the facts of each kind of core, the fastest first, and the kind on which points of one core run."""
    for number, kind in enumerate(cpu.kinds):
        per_cycle = [f"{count} FLOP per cycle in {dtype}" for dtype, count in core_flops_per_cycle(cpu, kind).items()]
        clock = [] if kind.frequency_mhz is None else [in_words("frequency_mhz", kind.frequency_mhz)]
        cores = counted(len(kind.cpus) if kind.cores is None else kind.cores, "core")
        found = [cores, f"CPUs {format_cpu_list(kind.cpus)}", *clock, _caches(kind.caches), *per_cycle]
        yield LabelledValue(f"kind {number + 1}: {kind.name}", ", ".join(filter(None, found)))
    yield LabelledValue("one core", cpu.one_core_kind)


def _caches(caches: Sequence[Cache]) -> str | None:
    found = [
        f"L{cache.level}{'' if cache.kind == 'Unified' else ' ' + cache.kind.lower()} {format_bytes(cache.size_bytes)}"
        + (f" shared by {cache.shared_by}" if cache.shared_by > 1 else "")
        for cache in caches
    ]
    return ", ".join(found) or None


def _memory(environment: Environment, value_of: FieldFormatter) -> Iterable[LabelledValue]:
    memory = environment.memory
    yield LabelledValue(
        "memory", f"{format_bytes(memory.total_bytes)}, {format_bytes(memory.available_bytes)} available at the start"
    )
    yield LabelledValue("swap", "none") if memory.swap_bytes == 0 else value_of("swap", "memory.swap_bytes")
    yield value_of("memory channels in use", "memory.channels")
    yield value_of("transparent huge pages", "memory.huge_pages")
    yield value_of("CPU quota", "limits.cpu_quota", "none")
    yield value_of("memory limit", "limits.memory_bytes", "none")


def _gpu(environment: Environment, place: int, value_of: FieldFormatter) -> Iterable[LabelledValue]:
    gpu, path = environment.gpus[place], f"gpus.{place}"
    yield value_of("model", f"{path}.name")
    yield value_of("vendor", f"{path}.vendor")
    yield value_of("memory", f"{path}.memory_bytes")
    yield value_of("compute capability", f"{path}.compute_capability")
    yield value_of("multiprocessors", f"{path}.multiprocessors")
    yield value_of("L2 cache", f"{path}.l2_bytes")
    yield value_of("highest SM clock", f"{path}.sm_clock_max_mhz")
    yield value_of("highest memory clock", f"{path}.memory_clock_max_mhz")
    yield value_of("power limit", f"{path}.power_limit_w")
    yield value_of("ECC", f"{path}.ecc")
    yield value_of("MIG", f"{path}.mig")
    yield value_of("persistence mode", f"{path}.persistence")
    yield value_of("MPS server", f"{path}.mps")
    known = gpu.pcie_generation is not None and gpu.pcie_width is not None
    yield LabelledValue("PCI Express", f"{gpu.pcie_generation}.0 ×{gpu.pcie_width}" if known else None)
    yield value_of("card (hash of its UUID)", f"{path}.uuid_hash")


def _tpu(environment: Environment, value_of: FieldFormatter) -> list[LabelledValue]:
    """Return the facts about the TPU, of which all devices are equal; empty if the run measured none."""
    devices = environment.tpus
    if not devices:
        reason = environment.unknown.get("tpus")
        return [LabelledValue("devices", None, reason)] if reason else []
    of_chip = devices[0].devices_of_chip
    chips = f", {of_chip} for each chip" if of_chip > 1 else ""
    return [
        value_of("kind", "tpus.0.name"),
        LabelledValue("devices", f"{len(devices)}{chips}"),
        value_of("memory of a device", "tpus.0.memory_bytes"),
    ]


def _system(environment: Environment, value_of: FieldFormatter) -> Iterable[LabelledValue]:
    system = environment.system
    yield value_of("operating system", "system.os")
    yield value_of("kernel", "system.kernel")
    yield LabelledValue("container", ", ".join(_container(system)) or "none detected")
    yield value_of("scheduler", "system.scheduler", "none detected")
    if system.runtime:
        yield value_of("runtime", "system.runtime")
    yield value_of("clock source", "system.clock_source")
    if environment.cuda is not None:
        yield value_of("NVIDIA driver", "cuda.driver")
        yield value_of("CUDA of the driver", "cuda.driver_cuda")
        yield value_of("CUDA runtime", "cuda.runtime")


def _container(system: System) -> Iterable[str]:
    if system.container:
        yield system.container
        yield f"image {system.image[:19]}" if system.image else "unknown image"
    if system.user_namespace:
        yield "user namespace"


def _software(environment: Environment, value_of: FieldFormatter) -> Iterable[LabelledValue]:
    software = environment.software
    revision = f" ({short_revision(software.revision)})" if software.revision else ""
    yield LabelledValue("accelbench", f"{software.accelbench}{revision}")
    yield LabelledValue("Python", f"{software.implementation} {software.python}")
    yield LabelledValue(
        "libraries", ", ".join(f"{name} {version}" for name, version in software.libraries.items()) or "none"
    )
    yield value_of("BLAS of NumPy", "software.blas")
    yield LabelledValue("threads", _pairs(software.threads) or "no setting")
    yield LabelledValue("framework settings", _pairs(software.settings) or "no setting")
    if held := limiting_settings(environment, USERS):
        yield LabelledValue("limited by settings", "; ".join(held))


def _pairs(settings: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())


section = Section(find=lambda run: machine(run.info), page=InPage("the_machine.html", "machine", "Machine"))
