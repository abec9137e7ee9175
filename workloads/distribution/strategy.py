"""Which strategy a point asks for, and what every strategy does; the others are in the modules beside this one."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any

from profiling.benchmark import Exchange, Serving, Skip
from profiling.ranks.world import world
from profiling.records.point import Point
from workloads.distribution import STRATEGIES
from workloads.training.pipeline import Feed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MODULES = {
    "mirrored": "workloads.distribution.mirrored",
    "multiworker": "workloads.distribution.multiworker",
    "parameter-server": "workloads.distribution.parameter_server",
    "tpu": "workloads.distribution.tpu",
    "horovod": "workloads.distribution.horovod",
    "data-parallel": "workloads.distribution.data_parallel",
    "ddp": "workloads.distribution.ddp",
}
"""Each has a function `strategy(point)`."""


class Strategy:
    """One replica in one process, which has nothing to exchange; the others change what they do otherwise."""

    replicas = 1
    """Of the model, over all processes."""
    serving: Serving | None = None
    """What this process does if it has no replica, once the strategy has started: it serves those that have one."""

    def __init__(self, point: Point) -> None:
        self.point = point
        self.world = world()
        self.devices = int(point.params.get("devices", 1))

    def start(self) -> None:
        """Meet the other processes, before the framework looks for its devices; Skip where that cannot be."""

    @property
    def batch(self) -> int:
        """Examples of one step of all replicas."""
        batch = int(self.point["batch"])
        if self.point.params.get("scaling") == "weak":
            return batch * self.replicas
        if batch % self.replicas:
            raise Skip(f"a batch of {batch} cannot be shared out evenly to {self.replicas} replicas")
        return batch

    @property
    def share(self) -> slice:
        """The examples of each step's batch that this process trains on."""
        each = self.batch // self.world.size
        return slice(self.world.rank * each, (self.world.rank + 1) * each)

    def scope(self) -> AbstractContextManager[Any]:
        """In which the model is built and compiled."""
        return nullcontext()

    def train(self, model: Any, batches: Feed, epochs: int, callbacks: list[Any]) -> dict[str, list[float]]:
        """Fit the compiled model for so many epochs; the history, one list of numbers per name."""
        from workloads.training.keras_model import train

        return train(model, batches, epochs, callbacks)

    def predict(self, model: Any, data: Any, **how: int) -> NDArray[np.floating[Any]]:
        """The outputs for all the data in every process; `how` is Keras's: `batch_size`, or `steps` of a generator."""
        outputs: NDArray[np.floating[Any]] = model.predict(data, verbose=0, **how)
        return outputs

    def exchange(self, model: Any, batches: Feed) -> Exchange | None:
        """What the replicas of the model exchange in a step; None where nothing is."""
        return None


def strategy_of(point: Point) -> Strategy:
    """The strategy that the point asks for; Skip where its backend lacks it, or it is for fewer devices."""
    name = _chosen(point)
    known = STRATEGIES[str(point.backend)]
    if name not in known:
        raise Skip(f"{point.backend} has no strategy {name!r}: it has {', '.join(known)}")
    if name == "none":
        several = [f"{axis}={point[axis]}" for axis in ("processes", "devices") if int(point.params.get(axis, 1)) > 1]
        if several:
            raise Skip(f"strategy none trains on one device, and {' and '.join(several)} was asked for")
        return Strategy(point)
    strategy: Strategy = import_module(MODULES[name]).strategy(point)
    return strategy


def _chosen(point: Point) -> str:
    """By name, or for `auto` the framework's own for so many processes and devices."""
    name = str(point.params.get("strategy", "auto"))
    if name != "auto":
        return name
    if point.device == "tpu" and point.backend == "tensorflow":
        return "tpu"
    processes, devices = (int(point.params.get(axis, 1)) for axis in ("processes", "devices"))
    if processes == devices == 1:
        return "none"
    if point.backend == "tensorflow":
        return "multiworker" if processes > 1 else "mirrored"
    return "data-parallel" if point.backend == "jax" else "ddp"


def require_devices(found: int, wanted: int, point: Point) -> None:
    """Skip unless the framework sees so many."""
    if found < wanted:
        raise Skip(f"{point.backend} sees {found} {point.device} devices, and {wanted} were asked for")
