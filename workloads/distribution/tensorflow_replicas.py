"""Base class for one Keras replica per process on TensorFlow, independent of the engine that reduces gradients."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

from accelbench.profiling.benchmark import Exchange
from accelbench.profiling.records.point import Point
from accelbench.workloads.data.pipeline import Feed
from accelbench.workloads.distribution.strategy import Strategy
from accelbench.workloads.distribution.tensorflow_loop import Logs, Step, build, learn, train


class Replicas(Strategy, ABC):
    """Synchronous data parallelism: each process trains on its share of every batch, and all apply the same update."""

    only = {"devices": (1,), "device": ("cpu", "gpu")}

    def __init__(self, point: Point) -> None:
        super().__init__(point)
        self.replicas = self.world.size
        self._steps: dict[Any, dict[bool, Step]] = {}
        """Compiled steps of each optimizer, with the exchange (True) and without."""

    @abstractmethod
    def add_up(self, gradients: list[Any]) -> list[Any]:
        """Return the global batch's gradients, given this replica's gradients; called in `run`."""

    @abstractmethod
    def mean(self, values: list[Any]) -> list[Any]:
        """Return the means of the values over the replicas; called in `run`."""

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call the function in this process's replica context, and return its result."""
        return function(*arguments)

    def built(self, model: Any) -> None:
        """Prepare the exchange, after all variables exist and before the first step."""

    def train(self, model: Any, batches: Feed, epochs: int, callbacks: list[Any]) -> dict[str, list[float]]:
        step, reset = self._step(model, batches, exchanging=True), partial(self.run, model.reset_metrics)
        return train(model, batches, epochs, callbacks, step, reset, partial(self._averaged_logs, model))

    def _step(self, model: Any, batches: Feed, exchanging: bool) -> Step:
        if model.optimizer not in self._steps:
            with self.scope():
                build(model, batches)
            self.built(model)
            self._vary_dropout(model)
            self._steps[model.optimizer] = {}
        compiled = self._steps[model.optimizer]
        if exchanging not in compiled:
            compiled[exchanging] = self._compiled(model, exchanging)
        return compiled[exchanging]

    def _compiled(self, model: Any, exchanging: bool) -> Step:
        import tensorflow as tf

        learn_locally = learn(model)

        def learn_with_exchange(batch: Any) -> tuple[list[Any], Logs]:
            gradients, logs = learn_locally(batch)
            return self.add_up(gradients), logs

        @tf.function(reduce_retracing=True, autograph=False)  # type: ignore[untyped-decorator]
        def step(batch: Any) -> Any:
            gradients, logs = self.run(learn_with_exchange if exchanging else learn_locally, batch)
            # Outside of `run`, in which Keras would reduce the gradients again; and after the reduction, so that an
            # overflow in one replica makes all of them skip the step, and none waits for another.
            model.optimizer.apply(gradients, model.trainable_variables)
            return logs

        compiled: Step = step
        return compiled

    def _vary_dropout(self, model: Any) -> None:
        """Offset each replica's dropout seed by its rank, so that replicas drop different units."""
        for variable in model.non_trainable_variables:
            if variable.name == "seed_generator_state":
                variable.assign(variable + self.world.rank)

    def _averaged_logs(self, model: Any, logs: Logs) -> Logs:
        """Return the epoch's metrics over all replicas, and average the moving averages of normalisation layers."""
        averages = [variable for variable in model.non_trainable_variables if "float" in variable.dtype]

        def mean() -> list[Any]:
            return self.mean([*logs.values(), *(variable.value for variable in averages)])

        found = self.run(mean)
        for variable, value in zip(averages, found[len(logs) :], strict=True):
            variable.assign(value)
        return dict(zip(logs, found, strict=False))

    def exchange(self, model: Any, batches: Feed) -> Exchange | None:
        if self.replicas == 1:
            return None
        size = sum(math.prod(variable.shape) * variable.value.dtype.size for variable in model.trainable_variables)
        return Exchange(partial(self._train_without_exchange, model, batches), self._all_reduce(model), size)

    def _train_without_exchange(self, model: Any, batches: Feed, callbacks: list[Any]) -> None:
        step, reset = self._step(model, batches, exchanging=False), partial(self.run, model.reset_metrics)
        train(model, batches, int(self.point["epochs"]), callbacks, step, reset, lambda logs: logs)

    def _all_reduce(self, model: Any) -> Callable[[], None]:
        """Return a function that all-reduces random arrays with the shapes of the gradients."""
        import tensorflow as tf

        def add_up(tensors: list[Any]) -> Any:
            # One element of each: its availability implies that the reduction is complete.
            return tf.stack([tf.reshape(added, [-1])[0] for added in self.add_up(tensors)])

        exchange = tf.function(partial(self.run, add_up), autograph=False)
        gradients: list[Any] = []

        def all_reduce() -> None:
            if not gradients:
                gradients.extend(tf.random.normal(variable.shape) for variable in model.trainable_variables)
            exchange(gradients).numpy()

        return all_reduce
