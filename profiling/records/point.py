"""The point that is measured: one value for each axis of a benchmark, on one device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

Device = str
"""The name of a kind of device, one of `profiling.machine.devices.kinds()`."""
Scalar = str | int


@dataclass(frozen=True)
class Point:
    """One value per axis of a benchmark, on one device."""

    benchmark: str
    device: Device
    params: Mapping[str, Scalar]
    backend: str | None = None
    seed: int = 0

    def __getitem__(self, axis: str) -> Any:
        return self.params[axis]

    def __str__(self) -> str:
        """The point's name, equal for equal points of any two runs: `matmul cpu impl=numba n=1024`."""
        backend = f" backend={self.backend}" if self.backend else ""
        return " ".join([f"{self.benchmark} {self.device}{backend}", *(f"{a}={v}" for a, v in self.params.items())])

    @property
    def dtype(self) -> str:
        """The arithmetic that the point runs in: its axis `dtype`, or its training precision, or float32."""
        named = str(self.params.get("dtype") or self.params.get("precision") or "float32")
        return named.removeprefix("mixed_")

    def rng(self) -> np.random.Generator:
        """A generator of the run's seed, so that the same run draws the same inputs again."""
        import numpy as np

        return np.random.default_rng(self.seed)
