"""Hardware class of a node: the facts by which nodes are equal, without host name."""

from __future__ import annotations

from collections import Counter

from accelbench.execution.store import RunInfo
from accelbench.history.fingerprint import fingerprint
from accelbench.profiling.records.environment import Environment
from accelbench.profiling.records.stored import Several, Stored


class HardwareClass(Stored):
    """Hardware that nodes of one class share."""

    machine: str
    """Fingerprint of the machine, as in `accelbench history`."""
    cpu: str
    """Model of the CPU."""
    cpus: Several
    """Number of usable logical CPUs."""
    gpus: dict[str, Several] = {}
    """Number of GPUs by name."""
    memory_bytes: Several
    """Size of the main memory in bytes."""
    memory_channels: Several | None = None
    """Number of memory channels with a module; null without an EDAC driver."""

    @classmethod
    def of(cls, info: RunInfo) -> HardwareClass:
        """Return the hardware class of a run's machine."""
        return cls.of_environment(info.environment, fingerprint(info))

    @classmethod
    def of_environment(cls, environment: Environment, machine: str) -> HardwareClass:
        """Return the hardware class of a machine with this fingerprint."""
        return cls(
            machine=machine,
            cpu=environment.cpu.model or f"unknown {environment.cpu.architecture} CPU",
            cpus=environment.cpu.usable,
            gpus=dict(sorted(Counter(gpu.name for gpu in environment.gpus).items())),
            memory_bytes=environment.memory.total_bytes,
            memory_channels=environment.memory.channels,
        )

    def missing_from(self, other: HardwareClass) -> list[str]:
        """Return the parts of this class that `other` lacks as text; empty if `other` is not a reduced node of it."""
        if other.cpu != self.cpu or set(other.gpus) - set(self.gpus):
            return []
        lost = {name: count - other.gpus.get(name, 0) for name, count in self.gpus.items()}
        if other.cpus > self.cpus or any(count < 0 for count in lost.values()):
            return []
        cpus = [f"{self.cpus - other.cpus} of {self.cpus} CPUs"] if other.cpus < self.cpus else []
        return cpus + [f"{count} of {self.gpus[name]}× {name}" for name, count in lost.items() if count]
