"""A machine in words, by which its runs are found among others: its CPU, the number of CPUs, its GPUs; no names."""

from __future__ import annotations

from collections import Counter

from accelbench.execution.store import RunInfo
from accelbench.output.format import counted


def fingerprint(info: RunInfo) -> str:
    """Return the machine of a run, such as `EPYC 9654, 4 CPUs, 2× NVIDIA H200`.

    Machines that are built and limited alike have the same fingerprint: what they were measured at is one history.
    """
    environment = info.environment
    cpu, quota = environment.cpu, environment.limits.cpu_quota
    limited = "" if quota is None else f" with a quota of {quota:g}"
    cards = Counter(gpu.name for gpu in environment.gpus)
    nodes = len({0, *(other.node for other in info.other_ranks)})
    parts = [
        cpu.model or f"unknown {cpu.architecture} CPU",
        f"{counted(cpu.usable, 'CPU')}{limited}",
        *(f"{count}× {name}" if count > 1 else name for name, count in cards.items()),
        *([f"{nodes} nodes"] if nodes > 1 else []),
    ]
    return ", ".join(parts)


def is_called(machine: str, name: str) -> bool:
    """Tell whether the fingerprint holds that name, in small or capital letters."""
    return name.casefold() in machine.casefold()
