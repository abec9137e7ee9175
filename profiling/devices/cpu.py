"""The host's own CPUs, which are always there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from accelbench.profiling.devices import DeviceKind
from accelbench.profiling.records.work import Bounded

if TYPE_CHECKING:
    from accelbench.profiling.records.environment import Environment, Peak


class CpuDevice(DeviceKind):
    """All CPUs of the host together are one device."""

    name = "cpu"
    title = "CPU"

    def find(self, root: Path = Path("/")) -> str:
        """Return that there is a CPU, since this runs on it."""
        return "the CPU is here"

    def memory_left(self) -> str:
        """Return the memory that the process may still use."""
        from accelbench.profiling.machine.free_memory import available_bytes
        from accelbench.profiling.text import format_bytes

        return f"{format_bytes(available_bytes())} of memory available"

    def peak(
        self,
        environment: Environment,
        dtype: str,
        figure: Bounded,
        unit_kind: str | None = None,
        kept_to_cpus: int | None = None,
    ) -> Peak:
        """Return why there is no peak: vendors state operations per cycle, and no clock under such load."""
        from accelbench.profiling.machine.vendor_peaks import cpu_flops_per_cycle
        from accelbench.profiling.records.environment import Peak

        per_cycle = cpu_flops_per_cycle(environment.cpu, dtype) if figure == "flops" else None
        if per_cycle:
            stated = f"the vendor states {per_cycle} FLOP per cycle of a core, but no clock under such load"
        else:
            stated = f"no vendor's figure for the {'FLOP/s' if figure == 'flops' else 'memory bandwidth'} of this CPU"
        kept = f", and that of all {environment.cpu.logical} CPUs does not bound {kept_to_cpus}" if kept_to_cpus else ""
        return Peak(value=None, reason=f"{stated}; see the measured ceiling{kept}")

    def model(self, environment: Environment) -> str | None:
        """Return the processor's name."""
        return environment.cpu.model
