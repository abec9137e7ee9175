"""NVIDIA's management library: sensors and settings of a card, read without a CUDA context."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pynvml

Reading = tuple[str, float, str]
"""Name, value, unit."""

# What holds a card's clock below what it could be (NVML, nvmlClocksThrottleReasons); an idle card is not held back.
THROTTLE_REASONS = {
    pynvml.nvmlClocksThrottleReasonSwPowerCap: "power limit",
    pynvml.nvmlClocksThrottleReasonApplicationsClocksSetting: "clocks set by the user",
    pynvml.nvmlClocksThrottleReasonSwThermalSlowdown: "temperature (software)",
    pynvml.nvmlClocksThrottleReasonHwThermalSlowdown: "temperature (hardware)",
    pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown: "external power brake",
    pynvml.nvmlClocksThrottleReasonHwSlowdown: "hardware slowdown",
    pynvml.nvmlClocksThrottleReasonSyncBoost: "clocks tied to another card",
    pynvml.nvmlClocksThrottleReasonDisplayClockSetting: "display clock",
}


def open_card(pci_bus_id: str) -> Any | None:
    """The management handle of the card at that PCI address, or None where there is no NVML for it."""
    try:
        pynvml.nvmlInit()  # counted by the library: every process that loads it may do so again
        return pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id)
    except pynvml.NVMLError:
        return None


def read(query: Callable[..., Any], *arguments: Any) -> Any | None:
    """What the query answers, or None where this card, driver or container does not offer it."""
    try:
        return query(*arguments)
    except pynvml.NVMLError:
        return None


def read_card(card: Any) -> list[Reading]:
    """The card's sensors, without those that it or its driver does not offer."""
    return list(_readings_of(card))


def _readings_of(card: Any) -> Iterator[Reading]:
    sensors: tuple[tuple[str, str, Callable[[], Any]], ...] = (
        ("gpu.sm_clock", "MHz", lambda: read(pynvml.nvmlDeviceGetClockInfo, card, pynvml.NVML_CLOCK_SM)),
        ("gpu.memory_clock", "MHz", lambda: read(pynvml.nvmlDeviceGetClockInfo, card, pynvml.NVML_CLOCK_MEM)),
        ("gpu.power", "W", lambda: read(_watts, card)),
        ("gpu.temperature", "°C", lambda: read(pynvml.nvmlDeviceGetTemperature, card, pynvml.NVML_TEMPERATURE_GPU)),
        ("gpu.utilization", "%", lambda: read(_busy, card)),
        ("gpu.processes", "", lambda: read(_processes, card)),
    )
    for name, unit, sensor in sensors:
        value = sensor()
        if value is not None:
            yield name, float(value), unit


def _watts(card: Any) -> float:
    milliwatts: int = pynvml.nvmlDeviceGetPowerUsage(card)
    return milliwatts / 1000


def _busy(card: Any) -> int:
    """Percent of the last fraction of a second in which a kernel ran."""
    percent: int = pynvml.nvmlDeviceGetUtilizationRates(card).gpu
    return percent


def _processes(card: Any) -> int:
    """Processes that hold a CUDA context on the card; a container may be shown its own only."""
    return len(pynvml.nvmlDeviceGetComputeRunningProcesses(card))


def read_energy(card: Any) -> float | None:
    """The card's energy counter in joules (Volta and newer)."""
    millijoules = read(pynvml.nvmlDeviceGetTotalEnergyConsumption, card)
    return None if millijoules is None else millijoules / 1000


def read_throttle_reasons(card: Any) -> list[str]:
    """What holds the card's clock down at this moment."""
    mask = read(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, card) or 0
    return [reason for bit, reason in THROTTLE_REASONS.items() if mask & bit]


def is_divided(card: Any) -> bool:
    """Whether the card is divided into parts (MIG), which share its power and its clocks."""
    modes = read(pynvml.nvmlDeviceGetMigMode, card)
    return modes is not None and bool(modes[0])  # [in force, after the next reset]
