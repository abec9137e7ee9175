"""The point that is measured: one value for each axis of a benchmark, on one device."""

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
    """One value per axis of a benchmark, on one device: the identity of what is planned, measured and stored."""

    benchmark: str
    """The name of the benchmark."""
    device: Device
    """The name of the kind of device that is measured: `cpu`, `gpu`, `tpu`."""
    params: Mapping[str, Scalar]
    """The value of each axis, whatever the axes are called; only the benchmark knows what they mean."""
    backend: str | None = None
    """The deep-learning framework under Keras; None for a kernel."""
    seed: int = 0
    """The seed of the random inputs."""
    host_cores: int | None = None
    """The number of the host's CPUs that the measuring process is kept to, each on a physical core of its own where
    there are as many; None for all of them."""

    def __getitem__(self, axis: str) -> Any:
        return self.params[axis]

    def __str__(self) -> str:
        """Return the point's name, equal for equal points of any two runs: `matmul cpu impl=numba n=1024`."""
        return " ".join(filter(None, [f"{self.benchmark} {self.device}", self.details]))

    @property
    def values(self) -> dict[str, Scalar]:
        """Return the value of each axis, and the number of host cores where it is limited: what tells points apart."""
        return {**self.params, **({} if self.host_cores is None else {"host_cores": self.host_cores})}

    @property
    def details(self) -> str:
        """Return the part of the name after benchmark and device: `backend=jax batch=128 host_cores=2`."""
        backend = {"backend": self.backend} if self.backend else {}
        return " ".join(f"{word}={value}" for word, value in {**backend, **self.values}.items())

    def rng(self) -> np.random.Generator:
        """Return a generator of the run's seed, so that the same run draws the same inputs again."""
        import numpy as np

        return np.random.default_rng(self.seed)
