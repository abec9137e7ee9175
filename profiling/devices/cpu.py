"""Device backend of the host's CPUs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from accelbench.profiling.devices import DeviceKind
from accelbench.profiling.records.work import Bounded

if TYPE_CHECKING:
    from accelbench.profiling.records.environment import Environment, Peak

HOST_DEVICES = "--xla_force_host_platform_device_count"
"""XLA's flag for the number of devices as which it presents the CPU."""


def split_for_xla(devices: int) -> None:
    """Make JAX see the CPU as several devices that share its cores, unless XLA_FLAGS has another number.

    It has no effect after JAX has started in this process.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if devices > 1 and HOST_DEVICES not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {HOST_DEVICES}={devices}".strip()


class CpuDevice(DeviceKind):
    """Backend of the host's CPUs, which form one device."""

    name = "cpu"
    title = "CPU"

    def find(self, root: Path = Path("/")) -> str:
        """Return a description; the CPU is always present."""
        return "the host's CPU"

    def memory_left(self) -> str:
        """Return the available memory of the process as text."""
        from accelbench.profiling.machine.free_memory import available_bytes
        from accelbench.profiling.text import format_bytes

        return f"{format_bytes(available_bytes())} of memory available"

    def peak(
        self,
        environment: Environment,
        dtype: str,
        metric: Bounded,
        unit_kind: str | None = None,
        kept_to_cpus: int | None = None,
    ) -> Peak:
        """Return an unknown peak with the reason: vendors do not state the clock under vector load."""
        from accelbench.profiling.machine.vendor_peaks import cpu_flops_per_cycle, flops_at_highest_clocks
        from accelbench.profiling.records.environment import Peak

        per_cycle = cpu_flops_per_cycle(environment.cpu, dtype) if metric == "flops" else None
        of_all_kinds = flops_at_highest_clocks(environment.cpu, dtype) if metric == "flops" else None
        if of_all_kinds:
            together = f"the kinds of cores have {of_all_kinds / 1e9:.4g} GFLOP/s together at their highest clocks"
            stated = f"{together}, but the vendor states no clock under vector load"
        elif environment.cpu.kinds and metric == "flops":
            stated = "the peak of a kind of core is unknown"
        elif per_cycle:
            stated = f"the vendor states {per_cycle} FLOP per cycle of a core, but no clock under vector load"
        else:
            stated = f"the vendor states no {'FLOP/s' if metric == 'flops' else 'memory bandwidth'} of this CPU"
        kept = (
            f" (the ceiling of all {environment.cpu.logical} CPUs does not bound {kept_to_cpus})"
            if kept_to_cpus
            else ""
        )
        return Peak(value=None, reason=f"{stated}; see the measured ceiling{kept}")

    def model(self, environment: Environment) -> str | None:
        """Return the processor's name."""
        return environment.cpu.model
