"""Training loop for Keras models on TensorFlow with several processes, which `fit` of Keras 3 does not support."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from accelbench.profiling.ranks.world import PROGRESS
from accelbench.workloads.data.pipeline import Feed
from accelbench.workloads.distribution.strategy import Strategy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Logs = Mapping[str, Any]
Step = Callable[[Any], Logs]
"""Function that trains on a batch and returns the epoch's metrics so far."""
Learn = Callable[[Any], tuple[list[Any], Logs]]
"""Function that returns the gradients of a batch and the epoch's metrics so far."""


class OwnLoop(Strategy):
    """Base class of TensorFlow strategies that `fit` and `predict` of Keras 3 do not support."""

    _strategy: Any

    def scope(self) -> AbstractContextManager[Any]:
        scope: AbstractContextManager[Any] = self._strategy.scope()
        return scope

    def predict(self, model: Any, data: Any, **how: int) -> NDArray[np.floating[Any]]:
        """Predict in this process alone: Keras would split the data and wait for the other processes' outputs."""
        strategy, model._distribute_strategy = model._distribute_strategy, None
        try:
            return super().predict(model, data, **how)
        finally:
            model._distribute_strategy = strategy


def train(
    model: Any,
    batches: Feed,
    epochs: int,
    callbacks: list[Any],
    step: Step,
    before_epoch: Callable[[], object],
    after_epoch: Callable[[Logs], Logs],
) -> dict[str, list[float]]:
    """Train as `fit` does, including callbacks, with the given `step`; return the history, a list of values per metric.

    `before_epoch` resets the metrics; `after_epoch` combines the last step's metrics of all replicas.
    """
    import keras

    calls = keras.callbacks.CallbackList(
        callbacks, add_history=True, model=model, epochs=epochs, steps=batches.steps, verbose=0
    )
    model.stop_training = False
    calls.on_train_begin()
    iterator = iter(batches.data)
    logs: Logs = {}
    for epoch in range(epochs):
        before_epoch()
        calls.on_epoch_begin(epoch)
        for number in range(batches.steps):
            calls.on_train_batch_begin(number)
            PROGRESS.at("input")
            batch = next(iterator)
            PROGRESS.at("step")
            logs = step(batch)
            calls.on_train_batch_end(number, logs)
        logs = after_epoch(logs)
        calls.on_epoch_end(epoch, logs)
        if model.stop_training:  # only after complete epochs: their metrics, and so the decision, agree on all ranks
            break
    model.optimizer.finalize_variable_values(model.trainable_variables)
    calls.on_train_end(logs)
    return {name: [float(value) for value in values] for name, values in model.history.history.items()}


def build(model: Any, batches: Feed) -> None:
    """Create the variables of the metrics and the optimizer, as `fit` does before its first step."""
    # Keras has no public interface for this except `fit`.
    model._symbolic_build(data_batch=batches.data.element_spec)


def learn(model: Any) -> Learn:
    """Return Keras's `train_step` without the update of the weights, compiled with XLA if the model is."""
    import tensorflow as tf

    compiled: Learn = tf.function(
        partial(gradients, model), jit_compile=model.jit_compile, reduce_retracing=True, autograph=False
    )
    return compiled


def gradients(model: Any, batch: Any, *, batch_only: bool = False) -> tuple[list[Any], Logs]:
    """Return the gradients of a batch, and the epoch's metrics so far.

    With `batch_only`, return the metrics of this batch and leave the variables unchanged: Keras updates a metric's
    state by a read and a write, so that concurrent updates from two processes would be lost.
    """
    import keras
    import tensorflow as tf

    (loss_metric,) = (metric for metric in model.metrics if metric.name == "loss")
    x, y, weights = keras.utils.unpack_x_y_sample_weight(batch)
    with tf.GradientTape() as tape:
        predicted = model(x, training=True)
        loss = model.compute_loss(x, y, predicted, weights, training=True)
        scaled = model.optimizer.scale_loss(loss)
    found = tape.gradient(scaled, model.trainable_variables)
    fresh = [(variable, tf.zeros_like(variable.value)) for variable in model.metrics_variables] if batch_only else []
    with keras.StatelessScope(fresh) if batch_only else nullcontext():
        # Keras has divided the loss by the number of replicas, so that the sum over replicas is the mean.
        loss_metric.update_state(loss * tf.distribute.get_strategy().num_replicas_in_sync)
        return found, model.compute_metrics(x, y, predicted, weights)
