"""Temperature, clock and power of the host's CPUs, where the kernel exposes them."""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from time import perf_counter

import psutil

from accelbench.profiling.machine.environment.cpu import collect_energy
from accelbench.profiling.records.telemetry import Reading

CHIPS = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "cpu-thermal")
"""Drivers of the sensors in CPUs."""


class CpuSensors:
    """Sensors of all CPUs; `missing` has the reason for each that cannot be read."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._energy_uj, self._when = collect_energy(root), perf_counter()
        found = {name for name, _, _ in self.read()}
        reasons = {
            "cpu.temperature": "CPU temperature: the kernel exposes no sensor of the CPU",
            "cpu.clock": "CPU clock: the kernel exposes none",
        }
        self.missing = [reason for name, reason in reasons.items() if name not in found]
        if not self._energy_uj:
            self.missing.append("CPU power: the energy counters (RAPL) are missing or readable by root only")

    def read(self) -> list[Reading]:
        """Return the highest temperature, the mean clock, and the mean power since the last call."""
        found: list[Reading] = []
        temperatures = [
            each.current
            for chip, sensors in getattr(psutil, "sensors_temperatures", dict)().items()
            for each in sensors
            if chip in CHIPS
        ]
        if temperatures:
            found.append(("cpu.temperature", max(temperatures), "°C"))
        if clocks := [each.current for each in psutil.cpu_freq(percpu=True) or [] if each.current > 0]:
            found.append(("cpu.clock", mean(clocks), "MHz"))
        before, then = self._energy_uj, self._when
        self._energy_uj, self._when = collect_energy(self._root), perf_counter()
        used = [
            (energy - before[name][0]) % wrap
            for name, (energy, wrap) in self._energy_uj.items()
            if name in before and wrap
        ]
        if used and self._when > then:
            found.append(("cpu.power", sum(used) * 1e-6 / (self._when - then), "W"))
        return found
