"""Base class of all strategies: batch size, scope, training, prediction and exchange."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from accelbench.profiling.benchmark import Exchange, Serving, Skip, Values
from accelbench.profiling.ranks.world import world
from accelbench.profiling.records.layout import Layout
from accelbench.profiling.records.point import Point
from accelbench.workloads.data import pipeline
from accelbench.workloads.data.pipeline import Examples, Feed
from accelbench.workloads.distribution.sharding import Sharding

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


AXES: Mapping[str, Values] = {"strategy": ("auto",), "scaling": ("strong",), "devices": (1,), "processes": (1,)}
"""Axes of a distributed workload."""
LAYOUT = {axis: axis for axis in AXES}
"""Layout field of each axis; the names are identical."""


class Strategy:
    """Base class of strategies, which keep the replicas of a model in sync. The defaults suit a single replica.

    A subclass that sets `backends` is a value of the axis `strategy`.
    """

    name: ClassVar[str]
    """Value on the axis: the module's name with dashes."""
    backends: ClassVar[tuple[str, ...]] = ()
    """Supported backends."""
    only: ClassVar[Mapping[str, Values]] = {}
    """Supported values of other axes, and of the device."""
    automatic: ClassVar[bool] = False
    """Whether `strategy=auto` may select it."""
    sharded: ClassVar[bool] = False
    """Whether each process stores only a shard of the parameters; requires a workload with sharding rules."""
    replicas = 1
    """Number of replicas in all processes."""
    replica_devices = 1
    """Number of devices per replica."""
    serving: Serving | None = None
    """Work of a process without a replica, set by `start`: it serves the processes with replicas."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.name = cls.__module__.rpartition(".")[2].replace("_", "-")

    def __init__(self, point: Point) -> None:
        self.point = point
        self.world = world()
        self.devices = int(point.params.get("devices", 1))

    def start(self) -> None:
        """Connect to the other processes, before the framework detects its devices; Skip if this is impossible."""

    @property
    def weak(self) -> bool:
        """Whether `batch` is the batch per replica."""
        return bool(self.point.params.get("scaling") == "weak")

    @property
    def batch(self) -> int:
        """Global batch size; Skip if it is not divisible by the number of replicas."""
        batch = int(self.point["batch"])
        if self.weak:
            return batch * self.replicas
        if batch % self.replicas:
            raise Skip(f"batch={batch} is not divisible by {self.replicas} replicas")
        return batch

    @property
    def layout(self) -> Layout:
        """Layout of the point over processes and devices."""
        return Layout(
            processes=self.world.size,
            devices=self.devices,
            replicas=self.replicas,
            replica_devices=self.replica_devices,
            scaling="weak" if self.weak else "strong",
            strategy=self.name,
            batch=self.batch,
        )

    @property
    def share(self) -> slice:
        """Slice of each global batch on which this process trains."""
        each = self.batch // self.world.size
        return slice(self.world.rank * each, (self.world.rank + 1) * each)

    def feed(self, examples: Examples | tuple[Any, ...], *, passes: int = 1, seed: int | None = None) -> Feed:
        """Return this process's share of the examples, in batches for the point's epochs; see `pipeline.feed`.

        The `seed` of the shuffling defaults to the point's.
        """
        point = self.point if seed is None else replace(self.point, seed=seed)
        return pipeline.feed(point, examples, batch=self.batch, epochs=point["epochs"], passes=passes, share=self.share)

    def shard(self, sharding: Sharding) -> None:
        """Set the sharding rules of the model that is built next; Skip if it cannot be sharded accordingly."""

    def held_bytes(self, model: Any) -> int | None:
        """Return the bytes of this process's parameters between steps; None if it stores all parameters."""
        return None

    def scope(self) -> AbstractContextManager[Any]:
        """Return the context in which to build and compile the model."""
        return nullcontext()

    def train(self, model: Any, batches: Feed, epochs: int, callbacks: list[Any]) -> dict[str, list[float]]:
        """Train the compiled model for `epochs`, and return the history: one list of values per metric name."""
        history = model.fit(
            batches.data, steps_per_epoch=batches.steps, epochs=epochs, shuffle=False, callbacks=callbacks, verbose=0
        )
        return {name: [float(value) for value in values] for name, values in history.history.items()}

    def predict(self, model: Any, data: Any, **how: int) -> NDArray[np.floating[Any]]:
        """Return the outputs for all data in every process; `how` is `batch_size`, or `steps` for a generator."""
        outputs: NDArray[np.floating[Any]] = model.predict(data, verbose=0, **how)
        return outputs

    def exchange(self, model: Any, batches: Feed) -> Exchange | None:
        """Return the exchange of the model's replicas in a step; None without exchange."""
        return None


def require_devices(found: int, wanted: int, point: Point) -> None:
    """Skip if the framework has fewer devices than the point uses."""
    if found < wanted:
        seen = f"{found} {point.device.upper()} device{'s' * (found != 1)}"
        raise Skip(f"devices={wanted}, but {point.backend} sees {seen}: choose fewer by --param devices=")
