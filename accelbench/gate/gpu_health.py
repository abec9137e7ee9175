"""Health of NVIDIA's cards by NVML, without a CUDA context."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pynvml

from accelbench.gate.answer import GateStatus
from accelbench.gate.reading import HealthReading
from accelbench.profiling.machine.environment.files import has_pci_device
from accelbench.profiling.machine.nvidia.nvml import compute_processes, mps_servers, read, read_throttle_reasons

NVIDIA_PCI, DISPLAY_CLASSES = "0x10de", ("0x0300", "0x0302")
HARDWARE_REASONS = {"temperature (hardware)", "hardware slowdown", "external power brake"}
"""Throttle reasons of a fault in hardware or cooling."""
RESET = "drain the node and reset the GPU: nvidia-smi --gpu-reset"
LINK_ERRORS = (
    pynvml.NVML_NVLINK_ERROR_DL_REPLAY,
    pynvml.NVML_NVLINK_ERROR_DL_RECOVERY,
    pynvml.NVML_NVLINK_ERROR_DL_CRC_FLIT,
)


def nvml_cards() -> list[Any]:
    """Return the NVML handles of all cards; raises pynvml.NVMLError without a driver."""
    pynvml.nvmlInit()
    return [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]


def gpu_readings(root: Path) -> Iterator[HealthReading]:
    """Yield the readings of all cards; a failure if a card is on the PCI bus and its driver does not respond."""
    try:
        cards = nvml_cards()
    except pynvml.NVMLError as error:
        present = has_pci_device(root, NVIDIA_PCI, classes=DISPLAY_CLASSES)
        yield HealthReading(
            name="GPU driver",
            resource="gpu",
            status="fail" if present else "unknown",
            found=f"{'an NVIDIA card is present, but ' if present else ''}NVML is not available: {error}",
            advice="check that the driver is loaded: nvidia-smi" if present else "",
        )
        return
    for index, card in enumerate(cards):
        yield from card_readings(card, f"GPU {index}")


def card_readings(card: Any, name: str) -> Iterator[HealthReading]:
    """Yield the readings that the card and its driver support."""

    def reading(what: str, found: str, status: GateStatus = "pass", **fields: Any) -> HealthReading:
        return HealthReading(name=f"{name} {what}", resource="gpu", status=status, found=found, **fields)

    for kind, constant in (
        ("uncorrected", pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
        ("corrected", pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
    ):
        count = read(pynvml.nvmlDeviceGetTotalEccErrors, card, constant, pynvml.NVML_VOLATILE_ECC)
        if count is None:
            yield reading(f"ECC {kind} errors", "not counted by this card or driver", "unknown")
        else:
            bad = kind == "uncorrected" and count > 0
            on_rise = "fail" if kind == "uncorrected" else "warn"
            text, advice = f"{count} since the driver was loaded", RESET if bad else ""
            status: GateStatus = "fail" if bad else "pass"
            yield reading(f"ECC {kind} errors", text, status, advice=advice, counter=count, on_rise=on_rise)
    rows = read(pynvml.nvmlDeviceGetRemappedRows, card)
    pages = read(pynvml.nvmlDeviceGetRetiredPagesPendingStatus, card)
    if rows is None and pages is None:
        yield reading("memory repair", "not reported by this card or driver", "unknown")
    elif rows is not None and rows[3]:
        yield reading("memory repair", "remapping of a row failed", "fail", advice="replace the GPU")
    elif pages or (rows is not None and rows[2]):
        yield reading("memory repair", "pending until the next reset", "fail", advice=RESET)
    else:
        yield reading("memory repair", "nothing pending")
    width, widest = read(pynvml.nvmlDeviceGetCurrPcieLinkWidth, card), read(pynvml.nvmlDeviceGetMaxPcieLinkWidth, card)
    if width is not None and widest is not None:
        narrow = width < widest
        advice = "reseat the card or riser, and check the slot's width" if narrow else ""
        yield reading("PCIe width", f"{width} of {widest} lanes", "warn" if narrow else "pass", advice=advice)
    replays = read(pynvml.nvmlDeviceGetPcieReplayCounter, card)
    if replays is not None:
        yield reading("PCIe replays", f"{replays} since the last reset", counter=replays, on_rise="warn")
    reasons = read_throttle_reasons(card)
    faults = sorted(HARDWARE_REASONS & set(reasons))
    advice = "check cooling and power supply" if faults else ""
    yield reading("throttling", ", ".join(reasons) or "none", "fail" if faults else "pass", advice=advice)
    enforced, default = (
        read(query, card)
        for query in (pynvml.nvmlDeviceGetEnforcedPowerLimit, pynvml.nvmlDeviceGetPowerManagementDefaultLimit)
    )
    if enforced is not None and default is not None:
        low = enforced < default
        advice = f"nvidia-smi --power-limit={default // 1000}" if low else ""
        text = f"{enforced // 1000} W of {default // 1000} W"
        yield reading("power limit", text, "warn" if low else "pass", advice=advice)
    mode = read(pynvml.nvmlDeviceGetComputeMode, card)
    if mode is not None:
        closed = mode == pynvml.NVML_COMPUTEMODE_PROHIBITED
        advice = "nvidia-smi --compute-mode=DEFAULT" if closed else ""
        yield reading("compute mode", "prohibited" if closed else "usable", "fail" if closed else "pass", advice=advice)
    persistence = read(pynvml.nvmlDeviceGetPersistenceMode, card)
    if persistence is not None:
        advice = "" if persistence else "nvidia-smi --persistence-mode=1"
        yield reading(
            "persistence mode", "on" if persistence else "off", "pass" if persistence else "warn", advice=advice
        )
    if servers := mps_servers(card):
        yield reading("MPS server", f"PID {', '.join(map(str, servers))}; its clients share the GPU")
    yield from _link_readings(card, name)


def _link_readings(card: Any, name: str) -> Iterator[HealthReading]:
    states = [read(pynvml.nvmlDeviceGetNvLinkState, card, link) for link in range(pynvml.NVML_NVLINK_MAX_LINKS)]
    active = [link for link, state in enumerate(states) if state]
    known = [state for state in states if state is not None]
    if not active:
        return  # no NVLink, or none in use
    errors = sum(
        read(pynvml.nvmlDeviceGetNvLinkErrorCounter, card, link, kind) or 0 for link in active for kind in LINK_ERRORS
    )
    yield HealthReading(
        name=f"{name} NVLink",
        resource="gpu",
        status="pass" if len(active) == len(known) else "warn",
        found=f"{len(active)} of {len(known)} links active, {errors} errors",
        advice="" if len(active) == len(known) else "nvidia-smi nvlink --status",
        counter=errors,
    )


def gpu_processes() -> dict[int, int]:
    """Return the card's index by PID for the processes that compute on a GPU; empty without a driver.

    An MPS server is none of them, because it runs only kernels of its clients.
    """
    try:
        cards = nvml_cards()
    except pynvml.NVMLError:
        return {}
    return {pid: index for index, card in enumerate(cards) for pid in compute_processes(card) or ()}
