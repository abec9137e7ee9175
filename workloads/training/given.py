"""The part of the machine that a training is given: all GPUs or those that it uses, all of the memory or half of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from accelbench.profiling.benchmark import Only, Values
from accelbench.profiling.machine.devices import gpu_backend
from accelbench.profiling.ranks.world import world
from accelbench.profiling.records.point import Point

AXES: Mapping[str, Values] = {"visible": ("all",), "held": ("nothing",)}
"""The GPUs that the process sees, and the memory of which half is held so that the training has the other half."""
CHOICES: Mapping[str, Values] = {"visible": ("all", "used"), "held": ("nothing", "host-memory", "gpu-memory")}
ONLY: Only = {"visible": {"used": {"device": ("gpu",)}}, "held": {"gpu-memory": {"device": ("gpu",)}}}
SHARE = 0.5
"""The share of the free memory that is held."""
PAGE = 4096
"""The bytes of the smallest page of memory."""

_HELD: list[Any] = []
"""The memory that is held until this process ends."""


def give(point: Point) -> None:
    """Take away what the point is not to have; a framework looks for its GPUs and their memory when it is imported."""
    if point.params.get("visible") == "used":
        hide_other_gpus(point)
    held = point.params.get("held")
    if held == "host-memory":
        hold_host_memory()
    elif held == "gpu-memory":
        gpu = gpu_backend()
        _HELD.append(gpu.hold_memory(int(SHARE * gpu.free_memory())))


def hide_other_gpus(point: Point) -> None:
    """Let this process see no more of its GPUs than the point uses."""
    variable = gpu_backend().visible_devices
    devices, seen = int(point.params.get("devices", 1)), os.environ.get(variable)
    cards = seen.split(",") if seen else list(map(str, range(devices)))
    os.environ[variable] = ",".join(cards[:devices])


def hold_host_memory() -> None:
    """Take half of the free memory of the host, of which several ranks take as much together."""
    import numpy as np

    from accelbench.profiling.machine.free_memory import available_bytes

    memory = np.empty(int(SHARE * available_bytes() / world().local_size), np.uint8)
    memory[::PAGE] = 1  # a page that nobody has written to takes no memory
    _HELD.append(memory)
