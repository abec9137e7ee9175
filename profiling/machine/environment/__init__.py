"""The environment record: facts about the machine that may explain a result."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from accelbench.profiling.records.environment import Cuda, Gpu


class GpuFacts(NamedTuple):
    """GPUs of one vendor that are visible to this process."""

    gpus: list[Gpu]
    cuda: Cuda | None = None
    """Driver and runtime versions, for NVIDIA's GPUs."""
    unknown: dict[str, str] = {}
    """Unreadable facts, each with the reason."""


PACKAGES: dict[str, tuple[str, ...]] = {}
"""Python packages whose versions are recorded, by GPU vendor; device backends add theirs."""
COLLECTORS: dict[str, Callable[[], GpuFacts]] = {}
"""Function that collects the facts about GPUs, by vendor; each GPU backend adds its own."""
