"""The facts that may explain a figure: an allow-list, each collected by a small function."""

from __future__ import annotations

from pathlib import Path

from accelbench.profiling import PROJECT
from accelbench.profiling.machine.environment.cpu import collect_cpu
from accelbench.profiling.machine.environment.gpu import collect_visible_gpus
from accelbench.profiling.machine.environment.limits import collect_limits
from accelbench.profiling.machine.environment.memory import collect_memory
from accelbench.profiling.machine.environment.software import collect_software
from accelbench.profiling.machine.environment.system import collect_system
from accelbench.profiling.records.environment import Environment

# The reasons why a fact can be missing; those whose absence is itself the answer (no quota, no container) are not here.
WHY_UNKNOWN = {
    "cpu.model": "/proc/cpuinfo does not name the processor",
    "cpu.sockets": "the kernel shows no CPU topology",
    "cpu.cores": "the kernel shows no CPU topology",
    "cpu.affinity": "this operating system does not tell a process's CPU affinity",
    "cpu.governor": "the kernel shows no frequency governor, as in most virtual machines",
    "cpu.frequency_mhz": "the kernel states no clock",
    "cpu.numa_nodes": "the kernel shows no memory nodes",
    "memory.swap_bytes": "there is no /proc/meminfo",
    "memory.huge_pages": "the kernel has no transparent huge pages",
    "system.clock_source": "the kernel does not name its clock source",
    "software.blas": "threadpoolctl knows no BLAS among NumPy's libraries",
    "cuda.driver": "NVML does not answer",
    "cuda.runtime": "no CUDA runtime package is installed",
}


def collect(root: Path = Path("/")) -> Environment:
    """Collect every fact about this machine; what cannot be read is null, with the reason in `unknown`.

    `root` is where `/proc`, `/sys` and `/etc` are looked for.
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
    return environment.model_copy(update={"unknown": _reasons(environment) | unknown})


def _reasons(environment: Environment) -> dict[str, str]:
    reasons = {}
    for fact, reason in WHY_UNKNOWN.items():
        part, field = fact.split(".")
        group = getattr(environment, part)
        if group is not None and getattr(group, field) is None:
            reasons[fact] = reason
    if environment.software.revision is None:
        is_checkout = (PROJECT / ".git").exists()
        why = "git could not describe the checkout" if is_checkout else "the suite does not run from a git checkout"
        reasons["software.revision"] = why
    return reasons
