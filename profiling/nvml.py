"""NVIDIA's management library: sensors and settings of a card, read without a CUDA context."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pynvml


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
