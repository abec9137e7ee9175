"""The work of every strategy: the replicas' batch, the scope of the model, training, prediction and exchange."""

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
"""The axes of a training that can be distributed."""
LAYOUT = {axis: axis for axis in AXES}
"""The field of the layout that each of these axes says: they have the same names."""


class Strategy:
    """The way in which the replicas of a model learn together; here one learns alone, which subclasses change.

    A subclass that names `backends` is a value of the axis `strategy`.
    """

    name: ClassVar[str]
    """The name of the strategy on the axis, which is that of its file with dashes."""
    backends: ClassVar[tuple[str, ...]] = ()
    """The backends that have the strategy."""
    only: ClassVar[Mapping[str, Values]] = {}
    """The values of other axes, and of the device, that the strategy exists with."""
    automatic: ClassVar[bool] = False
    """Whether `strategy=auto` may choose it."""
    sharded: ClassVar[bool] = False
    """Whether a process holds a share of the parameters alone; it is for trainings that say how to share them out."""
    replicas = 1
    """The number of replicas of the model in all processes."""
    replica_devices = 1
    """The number of devices that compute one replica together."""
    serving: Serving | None = None
    """The work of a process without a replica, once the strategy has started: it serves those that have one."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.name = cls.__module__.rpartition(".")[2].replace("_", "-")

    def __init__(self, point: Point) -> None:
        self.point = point
        self.world = world()
        self.devices = int(point.params.get("devices", 1))

    def start(self) -> None:
        """Meet the other processes, before the framework looks for its devices; Skip where that cannot be."""

    @property
    def weak(self) -> bool:
        """Whether each replica has a batch of its own."""
        return bool(self.point.params.get("scaling") == "weak")

    @property
    def batch(self) -> int:
        """The number of examples in one step of all replicas; Skip where the replicas cannot share it evenly."""
        batch = int(self.point["batch"])
        if self.weak:
            return batch * self.replicas
        if batch % self.replicas:
            raise Skip(f"a batch of {batch} cannot be shared out evenly to {self.replicas} replicas")
        return batch

    @property
    def layout(self) -> Layout:
        """Return the point's layout over processes and devices."""
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
        """The examples of each step's batch that this process trains on."""
        each = self.batch // self.world.size
        return slice(self.world.rank * each, (self.world.rank + 1) * each)

    def feed(self, examples: Examples | tuple[Any, ...], *, passes: int = 1, seed: int | None = None) -> Feed:
        """Return this process's share of the examples, in batches for the point's epochs; see `pipeline.feed`.

        Their order is drawn from the `seed`, by default the point's.
        """
        point = self.point if seed is None else replace(self.point, seed=seed)
        return pipeline.feed(point, examples, batch=self.batch, epochs=point["epochs"], passes=passes, share=self.share)

    def shard(self, sharding: Sharding) -> None:
        """Take note of how the model, which is built next, may be shared out; Skip where it cannot be."""

    def held_bytes(self, model: Any) -> int | None:
        """Return the bytes of the parameters that this process holds between steps; None where it holds them all."""
        return None

    def scope(self) -> AbstractContextManager[Any]:
        """Return the context in which the model is built and compiled."""
        return nullcontext()

    def train(self, model: Any, batches: Feed, epochs: int, callbacks: list[Any]) -> dict[str, list[float]]:
        """Fit the compiled model for so many epochs, and return the history, one list of numbers per name."""
        history = model.fit(
            batches.data, steps_per_epoch=batches.steps, epochs=epochs, shuffle=False, callbacks=callbacks, verbose=0
        )
        return {name: [float(value) for value in values] for name, values in history.history.items()}

    def predict(self, model: Any, data: Any, **how: int) -> NDArray[np.floating[Any]]:
        """Return the outputs for all the data in every process; `how` is `batch_size`, or a generator's `steps`."""
        outputs: NDArray[np.floating[Any]] = model.predict(data, verbose=0, **how)
        return outputs

    def exchange(self, model: Any, batches: Feed) -> Exchange | None:
        """Return what the replicas of the model exchange in a step; None where there is nothing to exchange."""
        return None


def require_devices(found: int, wanted: int, point: Point) -> None:
    """Skip unless the framework sees so many devices."""
    if found < wanted:
        raise Skip(f"{point.backend} sees {found} {point.device} devices, and {wanted} were asked for")
