"""Identification of a machine's runs by its hardware as text: CPU model, number of CPUs, GPUs, TPUs; no host name."""

from __future__ import annotations

from collections import Counter

from accelbench.execution.store import RunInfo
from accelbench.output.format import counted
from accelbench.profiling.records.environment import Environment


def fingerprint(info: RunInfo) -> str:
    """Return the machine of a run as text, such as `EPYC 9654, 4 CPUs, 2× NVIDIA H200`.

    Machines with the same hardware and limits have the same fingerprint, and therefore share one history.
    """
    nodes = len({0, *(other.node for other in info.other_ranks)})
    return hardware_text(info.environment, nodes)


def hardware_text(environment: Environment, nodes: int = 1) -> str:
    """Return the hardware of a machine, or of several equal ones, as text."""
    cpu, quota = environment.cpu, environment.limits.cpu_quota
    limited = "" if quota is None else f" with a quota of {quota:g}"
    cards = Counter([gpu.name for gpu in environment.gpus] + [tpu.name for tpu in environment.tpus])
    # Points of one core on other cores than the fastest ones have a history of their own.
    slower = cpu.kinds and cpu.one_core_kind != cpu.kinds[0].name
    parts = [
        cpu.model or f"unknown {cpu.architecture} CPU",
        f"{counted(cpu.usable, 'CPU')}{limited}",
        *([f"one core: {cpu.one_core_kind}"] if slower else []),
        *(f"{count}× {name}" if count > 1 else name for name, count in cards.items()),
        *([f"{nodes} nodes"] if nodes > 1 else []),
    ]
    return ", ".join(parts)


def is_called(machine: str, name: str) -> bool:
    """Return whether the fingerprint contains the name, ignoring case."""
    return name.casefold() in machine.casefold()
