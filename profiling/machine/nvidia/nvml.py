"""NVIDIA's management library: sensors and settings of a card, read without a CUDA context."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pynvml

if TYPE_CHECKING:
    from accelbench.profiling.records.telemetry import Reading

# The reasons that hold a card's clock down (NVML, nvmlClocksThrottleReasons); an idle card is not held back.
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
    """Open the management handle of the card at that PCI address; None where there is no NVML for it."""
    try:
        pynvml.nvmlInit()  # counted by the library: every process that loads it may do so again
        return pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id)
    except pynvml.NVMLError:
        return None


def read(query: Callable[..., Any], *arguments: Any) -> Any | None:
    """Return what the query answers, or None where this card, driver or container does not offer it."""
    try:
        return query(*arguments)
    except pynvml.NVMLError:
        return None


class Cards:
    """The sensors of the GPUs at these PCI addresses; what none of them can tell is added to `missing`."""

    def __init__(self, addresses: Sequence[str], missing: list[str]) -> None:
        found = [open_card(address) for address in addresses]
        self._cards = [(number, card) for number, card in enumerate(found) if card is not None]
        self._several, self._complete = len(found) > 1, len(self._cards) == len(found)
        self._divided = any(is_divided(card) for _, card in self._cards)
        if not self._complete:
            lost = ", ".join(address for address, card in zip(addresses, found, strict=True) if card is None)
            missing.append(f"sensors of the GPU at {lost}: NVML does not answer for it")
        if self._divided:
            missing.append("GPU power and energy: the card is divided (MIG), and they are those of all its parts")

    def read(self) -> list[Reading]:
        """Read every sensor of every card; of several cards `gpu.power.0` and so on, in CUDA's order."""
        return [
            (f"{name}.{number}" if self._several else name, value, unit)
            for number, card in self._cards
            for name, value, unit in read_card(card)
            if not (self._divided and name == "gpu.power")
        ]

    def throttle_reasons(self) -> list[str]:
        """Return what holds the clock of any card down."""
        return sorted({reason for _, card in self._cards for reason in read_throttle_reasons(card)})

    def energy(self) -> float | None:
        """Return the sum of the cards' energy counters; None if any of them cannot be read."""
        joules = [read_energy(card) for _, card in self._cards]
        known = [value for value in joules if value is not None]
        return sum(known) if self._complete and not self._divided and len(known) == len(joules) else None


def read_card(card: Any) -> Iterator[Reading]:
    """Read the card's sensors, without those that it or its driver does not offer."""
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
    """Return the percent of the last fraction of a second in which a kernel ran."""
    percent: int = pynvml.nvmlDeviceGetUtilizationRates(card).gpu
    return percent


def _processes(card: Any) -> int:
    """Return how many processes hold a CUDA context on the card; a container may be shown its own only."""
    return len(pynvml.nvmlDeviceGetComputeRunningProcesses(card))


def read_energy(card: Any) -> float | None:
    """Return the card's energy counter in joules (Volta and newer)."""
    millijoules = read(pynvml.nvmlDeviceGetTotalEnergyConsumption, card)
    return None if millijoules is None else millijoules / 1000


def read_throttle_reasons(card: Any) -> list[str]:
    """Return what holds the card's clock down at this moment."""
    mask = read(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, card) or 0
    return [reason for bit, reason in THROTTLE_REASONS.items() if mask & bit]


def is_divided(card: Any) -> bool:
    """Return whether the card is divided into parts (MIG), which share its power and its clocks."""
    modes = read(pynvml.nvmlDeviceGetMigMode, card)
    return modes is not None and bool(modes[0])  # [in force, after the next reset]
