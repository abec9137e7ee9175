"""Collection of the environment record: an allow-list of facts that may explain a result."""

from __future__ import annotations

from pathlib import Path

from accelbench.profiling import PROJECT
from accelbench.profiling.machine.environment.cpu import collect_cpu
from accelbench.profiling.machine.environment.cpuinfo import read_cpuinfo
from accelbench.profiling.machine.environment.gpu import collect_visible_gpus
from accelbench.profiling.machine.environment.hypervisor import has_guest_flag
from accelbench.profiling.machine.environment.limits import collect_limits
from accelbench.profiling.machine.environment.memory import collect_memory
from accelbench.profiling.machine.environment.software import collect_software
from accelbench.profiling.machine.environment.system import collect_system
from accelbench.profiling.records.environment import Environment

# Reasons for missing facts, except for those whose absence is a valid value (no quota, no container).
WHY_UNKNOWN = {
    "cpu.model": "/proc/cpuinfo has no processor name",
    "cpu.sockets": "the kernel exposes no CPU topology",
    "cpu.cores": "the kernel exposes no CPU topology",
    "cpu.affinity": "this operating system has no CPU affinity",
    "cpu.caches": "the kernel lists no caches (as in some guests); arrays of memory benchmarks are up to 1 GiB",
    "cpu.hypervisor": "no CPU flag shows a guest on this architecture, and the firmware names no hypervisor",
    "cpu.governor": "the kernel exposes no frequency governor (as in most virtual machines)",
    "cpu.frequency_mhz": "the kernel exposes no clock frequency",
    "cpu.numa_nodes": "the kernel exposes no NUMA nodes",
    "memory.swap_bytes": "there is no /proc/meminfo",
    "memory.channels": "no EDAC driver is loaded, or it lists no channels",
    "memory.huge_pages": "the kernel has no transparent huge pages",
    "system.clock_source": "the kernel exposes no clock source",
    "software.blas": "threadpoolctl found no known BLAS in NumPy",
    "cuda.driver": "NVML is not available",
    "cuda.runtime": "no CUDA runtime package is installed",
}


def collect(root: Path = Path("/")) -> Environment:
    """Return the environment record of this machine; unreadable facts are null, with the reason in `unknown`.

    `root` is the folder that contains `/proc`, `/sys` and `/etc`.
    """
    gpus, cuda, unknown = collect_visible_gpus()
    environment = Environment(
        cpu=collect_cpu(root),
        memory=collect_memory(root),
        limits=collect_limits(root),
        system=collect_system(root),
        gpus=gpus,
        cuda=cuda,
        software=collect_software(),
    )
    return environment.model_copy(update={"unknown": _reasons(environment, root) | unknown})


def _reasons(environment: Environment, root: Path) -> dict[str, str]:
    reasons = {}
    for fact, reason in WHY_UNKNOWN.items():
        if fact == "cpu.hypervisor" and has_guest_flag(read_cpuinfo(root)):
            continue
        part, field = fact.split(".")
        group = getattr(environment, part)
        if group is not None and getattr(group, field) in (None, []):
            reasons[fact] = reason
    if environment.software.revision is None:
        is_checkout = (PROJECT / ".git").exists()
        why = "'git describe' failed in the checkout" if is_checkout else "accelbench does not run from a git checkout"
        reasons["software.revision"] = why
    return reasons
