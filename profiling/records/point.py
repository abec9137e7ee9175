"""Point: one value for each axis of a benchmark, on one device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

Device = str
"""The name of a kind of device, one of `accelbench.profiling.devices.kinds()`."""
Scalar = str | int


@dataclass(frozen=True)
class Point:
    """Unit that is planned, measured and stored: one value for each axis of a benchmark, on one device."""

    benchmark: str
    """The name of the benchmark."""
    device: Device
    """The kind of device that is measured: `cpu`, `gpu`, `tpu`."""
    params: Mapping[str, Scalar]
    """The value of each axis; axis names have no meaning outside the benchmark."""
    backend: str | None = None
    """The deep-learning framework used by Keras; None for a kernel."""
    seed: int = 0
    """The seed of the random inputs."""
    host_cores: int | None = None
    """The number of host CPUs that the measuring process may use, on separate physical cores if there are enough; null
    for all."""

    def __getitem__(self, axis: str) -> Any:
        return self.params[axis]

    def __str__(self) -> str:
        """Return the point's name, the same in every run: `matmul cpu impl=numba n=1024`."""
        return " ".join(filter(None, [f"{self.benchmark} {self.device}", self.details]))

    @property
    def values(self) -> dict[str, Scalar]:
        """Return the value of each axis, and the number of host cores if it is limited."""
        return {**self.params, **({} if self.host_cores is None else {"host_cores": self.host_cores})}

    @property
    def details(self) -> str:
        """Return the part of the name after benchmark and device: `backend=jax batch=128 host_cores=2`."""
        backend = {"backend": self.backend} if self.backend else {}
        return " ".join(f"{word}={value}" for word, value in {**backend, **self.values}.items())

    def rng(self) -> np.random.Generator:
        """Return a generator seeded with the run's seed, so that a repeated run has the same inputs."""
        import numpy as np

        return np.random.default_rng(self.seed)
