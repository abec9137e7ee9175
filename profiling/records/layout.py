"""The layout of a point over processes and devices, and how the replicas of a model share its batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

SAID_BY_AXES = ("processes", "devices", "replicas", "scaling", "strategy", "batch", "input_workers")
"""The parts of a layout that an axis can say."""


@dataclass(frozen=True)
class Layout:
    """The processes and devices that measure a point together; one of each, unless the benchmark declares more."""

    processes: int = 1
    """The number of processes that measure the point together."""
    devices: int = 1
    """The number of devices that each process uses."""
    replicas: int | None = None
    """The number of replicas of the trained model in all processes; None where nothing is trained."""
    replica_devices: int = 1
    """The number of devices that compute one replica together, each with a share of its parameters."""
    scaling: Literal["strong", "weak"] = "strong"
    """Whether the replicas share one batch, or each has a batch of its own."""
    strategy: str | None = None
    """The engine that keeps the replicas alike; None where nothing is trained."""
    batch: int | None = None
    """The number of examples in one training step of all replicas."""
    input_workers: int | None = None
    """The number of threads that make each process's batches; None where the benchmark does not declare it."""
    axes: Mapping[str, Annotated[str, Field(pattern=f"^({'|'.join(SAID_BY_AXES)})$")]] = field(default_factory=dict)
    """The axes of the point that declare its layout, whatever they are called, and the field that each of them sets.

    Points that differ in these axes alone train alike.
    """

    def bounding_devices(self, device: str) -> int | None:
        """Return how many devices bound a point's rate; None for CPUs that processes share in unknown ways.

        A CPU is one device, however it is divided.
        """
        if device != "cpu":
            return self.computing_devices
        return None if self.processes > 1 else 1

    @property
    def computing_devices(self) -> int:
        """Return the number of devices that do the work: those of each replica, or else all of all processes."""
        return self.processes * self.devices if self.replicas is None else self.replicas * self.replica_devices
