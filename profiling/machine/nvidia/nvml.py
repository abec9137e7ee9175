"""Sensors and settings of NVIDIA's cards from NVML, without a CUDA context."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath
from time import time_ns
from typing import TYPE_CHECKING, Any

import pynvml

from accelbench.profiling.machine.pcie import PcieLink

if TYPE_CHECKING:
    from accelbench.profiling.records.telemetry import Reading

# Reasons for a reduced clock (NVML, nvmlClocksThrottleReasons), without `GpuIdle`.
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

MPS_SERVER = "nvidia-cuda-mps-server"
"""Program of the server of NVIDIA's MPS (Multi-Process Service)."""


def open_card(pci_bus_id: str) -> Any | None:
    """Return the NVML handle of the card at a PCI address; None if NVML is not available for it."""
    try:
        pynvml.nvmlInit()  # reference-counted: it may be called again
        return pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id)
    except pynvml.NVMLError:
        return None


def pcie_link(card: Any) -> tuple[PcieLink, PcieLink] | None:
    """Return the card's current PCI Express link and the best that card and slot support; None if unknown.

    An idle card may have a slower link than a busy card.
    """
    queries = (
        pynvml.nvmlDeviceGetCurrPcieLinkGeneration,
        pynvml.nvmlDeviceGetCurrPcieLinkWidth,
        pynvml.nvmlDeviceGetMaxPcieLinkGeneration,
        pynvml.nvmlDeviceGetMaxPcieLinkWidth,
    )
    found = [int(read(query, card) or 0) for query in queries]
    return (PcieLink(found[0], found[1]), PcieLink(found[2], found[3])) if all(found) else None


def compute_processes(card: Any) -> list[int] | None:
    """Return the PIDs of the processes that compute on a card, without an MPS server; None if unknown.

    The clients of an MPS server are included. Source: NVIDIA, "Multi-Process Service", and the NVML API reference.
    """
    found = _listed_processes(card)
    return None if found is None else [pid for pid in found if not is_mps_server(pid)]


def mps_servers(card: Any) -> list[int] | None:
    """Return the PIDs of the MPS servers on a card; None if its processes are unknown.

    In a container without the host's PIDs a server has no name, and is counted as a process.
    """
    found = _listed_processes(card)
    return None if found is None else [pid for pid in found if is_mps_server(pid)]


def _listed_processes(card: Any) -> list[int] | None:
    computing = read(pynvml.nvmlDeviceGetComputeRunningProcesses, card)
    if computing is None:
        return None
    found = [process.pid for process in computing]
    clients = read(pynvml.nvmlDeviceGetMPSComputeRunningProcesses, card) or ()
    return [*found, *(client.pid for client in clients if client.pid not in found)]


def is_mps_server(pid: int) -> bool:
    """Return whether a process is a server of NVIDIA's MPS (Multi-Process Service), which runs its clients' kernels."""
    name = read(pynvml.nvmlSystemGetProcessName, pid)
    return name is not None and PurePosixPath(os.fsdecode(name)).name.startswith(MPS_SERVER)


def cards_of_process(pid: int) -> list[str]:
    """Return the PCI addresses of the cards on which a process has a CUDA context; empty without NVML."""
    try:
        pynvml.nvmlInit()
        cards = [pynvml.nvmlDeviceGetHandleByIndex(number) for number in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError:
        return []
    return [str(pynvml.nvmlDeviceGetPciInfo(card).busId) for card in cards if pid in (compute_processes(card) or ())]


def read(query: Callable[..., Any], *arguments: Any) -> Any | None:
    """Return the result of a query; None if card, driver or container does not support it."""
    try:
        return query(*arguments)
    except (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError):  # the second one is of a driver without the function
        return None


POSSIBLE = {
    "gpu.sm_clock": (0, 10_000),
    "gpu.memory_clock": (0, 100_000),
    "gpu.power": (0.1, 10_000),
    "gpu.temperature": (1, 150),
    "gpu.utilization": (0, 100),
    "gpu.processes": (0, 10_000),
    "gpu.utilization_by_others": (0, 100),
}
"""Smallest and largest possible value of each sensor; the NVML of some integrated GPUs returns others with success."""
OF_PROCESSES = ("gpu.processes", "gpu.utilization_by_others")
"""Readings that cannot be checked; they are not trusted if another reading of the card is impossible."""


class Cards:
    """Sensors of the GPUs at these PCI addresses; unavailable sensors are added to `missing`.

    `own` is the PID of the measured process; other processes' use of the GPUs is not read without it.
    """

    def __init__(self, addresses: Sequence[str], missing: list[str], own: int | None = None) -> None:
        self._own, self._since_us = own, time_ns() // 1000
        found = [open_card(address) for address in addresses]
        self._cards = [(number, card) for number, card in enumerate(found) if card is not None]
        self._several, self._complete = len(found) > 1, len(self._cards) == len(found)
        self._partitioned = any(is_partitioned(card) for _, card in self._cards)
        self._missing = missing
        self._impossible: set[tuple[int, str]] = set()
        if not self._complete:
            lost = ", ".join(address for address, card in zip(addresses, found, strict=True) if card is None)
            missing.append(f"sensors of the GPU at {lost}: not available from NVML")
        if self._partitioned:
            missing.append(
                "GPU power and energy: the card is partitioned (MIG), and NVML reports all partitions together"
            )

    def read(self) -> list[Reading]:
        """Return all readings of all cards; with several cards, names end in CUDA's index: `gpu.power.0`."""
        since_us, self._since_us = self._since_us, time_ns() // 1000
        return [
            (f"{name}.{number}" if self._several else name, value, unit)
            for number, card in self._cards
            for name, value, unit in self._possible(number, [*read_card(card), *self._read_others(card, since_us)])
            if not (self._partitioned and name == "gpu.power")
        ]

    def _possible(self, number: int, readings: list[Reading]) -> Iterator[Reading]:
        """Yield the possible readings of a card; with an impossible one, its processes are unknown, too."""
        for name, value, unit in readings:
            low, high = POSSIBLE[name]
            if not low <= value <= high and (number, name) not in self._impossible:
                self._impossible |= {(number, each) for each in (name, *OF_PROCESSES)}
                self._missing.append(f"{name} of card {number}: NVML returned {value:g} {unit}, which is impossible")
        yield from (reading for reading in readings if (number, reading[0]) not in self._impossible)

    def _read_others(self, card: Any, since_us: int) -> Iterator[Reading]:
        used = None if self._own is None else read_use_by_others(card, self._own, since_us)
        if used is not None:
            yield "gpu.utilization_by_others", used, "%"

    def throttle_reasons(self) -> list[str]:
        """Return the throttle reasons of all cards."""
        return sorted({reason for _, card in self._cards for reason in read_throttle_reasons(card)})

    def energy(self) -> float | None:
        """Return the sum of the cards' energy counters in joules; None if any of them is not readable."""
        joules = [read_energy(card) for _, card in self._cards]
        known = [value for value in joules if value is not None]
        return sum(known) if self._complete and not self._partitioned and len(known) == len(joules) else None


def read_card(card: Any) -> Iterator[Reading]:
    """Yield the readings of the sensors that the card and its driver support."""
    sensors: tuple[tuple[str, str, Callable[[], Any]], ...] = (
        ("gpu.sm_clock", "MHz", lambda: read(pynvml.nvmlDeviceGetClockInfo, card, pynvml.NVML_CLOCK_SM)),
        ("gpu.memory_clock", "MHz", lambda: read(pynvml.nvmlDeviceGetClockInfo, card, pynvml.NVML_CLOCK_MEM)),
        ("gpu.power", "W", lambda: read(_watts, card)),
        ("gpu.temperature", "°C", lambda: read(pynvml.nvmlDeviceGetTemperature, card, pynvml.NVML_TEMPERATURE_GPU)),
        ("gpu.utilization", "%", lambda: read(_busy, card)),
        ("gpu.processes", "", lambda: _processes(card)),
    )
    for name, unit, sensor in sensors:
        value = sensor()
        if value is not None:
            yield name, float(value), unit


def _watts(card: Any) -> float:
    milliwatts: int = pynvml.nvmlDeviceGetPowerUsage(card)
    return milliwatts / 1000


def _busy(card: Any) -> int:
    """Return the percentage of time, in the last fraction of a second, in which a kernel ran."""
    percent: int = pynvml.nvmlDeviceGetUtilizationRates(card).gpu
    return percent


def _processes(card: Any) -> int | None:
    """Return the number of processes that compute on the card; a container may see only its own."""
    found = compute_processes(card)
    return None if found is None else len(found)


def read_use_by_others(card: Any, own: int, since_us: int) -> float | None:
    """Return the highest percentage of time in which a kernel of another process ran since a time; None if unknown.

    It is unknown without support by the card, if NVML does not list the process `own` (a container has other PIDs), and
    for several clients of an MPS server, whose kernels may be counted as the server's.
    """
    processes = compute_processes(card)
    if processes is None or own not in processes:
        return None
    if len(processes) == 1:
        return 0.0
    if mps_servers(card):
        return None
    try:
        used = pynvml.nvmlDeviceGetProcessUtilization(card, since_us)
    except pynvml.NVMLError_NotFound:  # no process used the card since then
        return 0.0
    except pynvml.NVMLError:
        return None
    return float(max((each.smUtil for each in used if each.pid != own), default=0))


def read_energy(card: Any) -> float | None:
    """Return the card's energy counter in joules (Volta and newer)."""
    millijoules = read(pynvml.nvmlDeviceGetTotalEnergyConsumption, card)
    return None if millijoules is None else millijoules / 1000


def read_throttle_reasons(card: Any) -> list[str]:
    """Return the card's current throttle reasons."""
    mask = read(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, card) or 0
    return [reason for bit, reason in THROTTLE_REASONS.items() if mask & bit]


def is_partitioned(card: Any) -> bool:
    """Return whether the card is partitioned (MIG); the partitions share its power and clocks."""
    modes = read(pynvml.nvmlDeviceGetMigMode, card)
    return modes is not None and bool(modes[0])  # [current, pending until the next reset]
