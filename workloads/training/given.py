"""Resource restrictions of a training run: visible GPUs, and memory withheld from it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from accelbench.profiling.benchmark import Only, Values
from accelbench.profiling.devices import gpu_backend
from accelbench.profiling.ranks.world import world
from accelbench.profiling.records.point import Point

AXES: Mapping[str, Values] = {"visible": ("all",), "held": ("nothing",)}
"""GPUs visible to the process, and the memory of which half is withheld."""
CHOICES: Mapping[str, Values] = {"visible": ("all", "used"), "held": ("nothing", "host-memory", "gpu-memory")}
ONLY: Only = {"visible": {"used": {"device": ("gpu",)}}, "held": {"gpu-memory": {"device": ("gpu",)}}}
SHARE = 0.5
"""Share of the free memory that is withheld."""
PAGE = 4096
"""Smallest page size in bytes."""

_HELD: list[Any] = []
"""Memory withheld until the process ends."""


def give(point: Point) -> None:
    """Apply the point's resource restrictions; must run before the framework is imported and detects its GPUs."""
    if point.params.get("visible") == "used":
        hide_other_gpus(point)
    held = point.params.get("held")
    if held == "host-memory":
        hold_host_memory()
    elif held == "gpu-memory":
        gpu = gpu_backend()
        _HELD.append(gpu.hold_memory(int(SHARE * gpu.free_memory())))


def hide_other_gpus(point: Point) -> None:
    """Restrict the visible GPUs to the number that the point uses."""
    variable = gpu_backend().visible_devices
    devices, seen = int(point.params.get("devices", 1)), os.environ.get(variable)
    cards = seen.split(",") if seen else list(map(str, range(devices)))
    os.environ[variable] = ",".join(cards[:devices])


def hold_host_memory() -> None:
    """Allocate half of the host's free memory, divided among the ranks of the host."""
    import numpy as np

    from accelbench.profiling.machine.free_memory import available_bytes

    memory = np.empty(int(SHARE * available_bytes() / world().local_size), np.uint8)
    memory[::PAGE] = 1  # untouched pages take no memory
    _HELD.append(memory)
