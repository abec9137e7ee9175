"""The environment record: the facts about the machine that may explain a figure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from accelbench.profiling.records.environment import Cuda, Gpu


class GpuFacts(NamedTuple):
    """The GPUs of one vendor that a program started here would see."""

    gpus: list[Gpu]
    cuda: Cuda | None = None
    """The versions of driver and runtime, of NVIDIA's GPUs."""
    unknown: dict[str, str] = {}
    """The facts that could not be read, each with the reason."""


PACKAGES: dict[str, tuple[str, ...]] = {}
"""The Python packages whose versions are recorded for a vendor's GPUs, by vendor; added by the device backends, too."""
COLLECTORS: dict[str, Callable[[], GpuFacts]] = {}
"""The function that collects the facts about a vendor's GPUs, by vendor; each device backend of GPUs adds its own."""
