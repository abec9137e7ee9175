"""Layout of a point: its processes, devices and model replicas, and how the replicas share a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

AXIS_FIELDS = ("processes", "devices", "replicas", "scaling", "strategy", "batch", "input_workers")
"""The fields of a layout that an axis can set."""


@dataclass(frozen=True)
class Layout:
    """Processes and devices that measure a point together; one of each by default."""

    processes: int = 1
    """The number of processes that measure the point together."""
    devices: int = 1
    """The number of devices that each process uses."""
    replicas: int | None = None
    """The number of model replicas in all processes; null if nothing is trained."""
    replica_devices: int = 1
    """The number of devices that hold one replica together, each with a share of the parameters."""
    scaling: Literal["strong", "weak"] = "strong"
    """Whether the replicas share one batch (`strong`) or each has a batch of its own (`weak`)."""
    strategy: str | None = None
    """The engine that synchronises the replicas; null if nothing is trained."""
    batch: int | None = None
    """The number of examples in one training step, over all replicas."""
    input_workers: int | None = None
    """The number of threads per process that make batches; null where the benchmark does not declare it."""
    axes: Mapping[str, Annotated[str, Field(pattern=f"^({'|'.join(AXIS_FIELDS)})$")]] = field(default_factory=dict)
    """The axes of the point that set its layout, each with the field that it sets.

    Points that differ only in these axes train the same model on the same data.
    """

    def bounding_devices(self, device: str) -> int | None:
        """Return the number of devices that bound a point's rate; None for CPUs shared by several processes.

        The CPUs of a host are one device.
        """
        if device != "cpu":
            return self.computing_devices
        return None if self.processes > 1 else 1

    @property
    def computing_devices(self) -> int:
        """Return the number of devices of all replicas, or of all processes if nothing is trained."""
        return self.processes * self.devices if self.replicas is None else self.replicas * self.replica_devices
